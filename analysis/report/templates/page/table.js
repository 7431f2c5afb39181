// Sorts rows within each work and filters them; without this script the table is complete.
(() => {
  const table = document.getElementById("table");
  const heads = [...table.tHead.rows[0].cells];
  const works = [...table.tBodies].map((body) => {
    const [heading, ...rows] = body.rows;
    return {body, rows, heading: heading.textContent, values: JSON.parse(body.dataset.values)};
  });

  const value = (row, column) => {
    const cell = row.cells[column];
    if (!cell || cell.colSpan > 1 || cell.textContent === "–") return null;
    return cell.dataset.key === undefined ? cell.textContent : Number(cell.dataset.key);
  };
  const compare = (one, other) =>
    typeof one === "number" ? one - other : one.localeCompare(other, "en", {numeric: true});
  const sort = (column, sign) => {
    works.forEach(({body, rows}) => {
      const keyed = rows.map((row) => [value(row, column), row]);
      keyed.sort(([one], [other]) =>  // unknown values come last in both directions
        one === null || other === null ? (one === null) - (other === null) : sign * compare(one, other));
      body.append(...keyed.map(([, row]) => row));
    });
    heads.forEach((head) => head.setAttribute("aria-sort", "none"));
    heads[column].setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () =>
      sort(column, head.getAttribute("aria-sort") === "ascending" ? -1 : 1));
    head.append(button);
    head.setAttribute("aria-sort", "none");
  });

  const filters = document.createElement("form");
  filters.className = "filters";
  const labelled = (name, control) => {
    const label = document.createElement("label");
    label.append(name, control);
    filters.append(label);
    return control;
  };
  const search = labelled("rows with all of these words", document.createElement("input"));
  search.type = "search";
  search.name = "words";
  const lines = works.flatMap((work) => work.rows.map((row) =>
    ({row, work, text: `${work.heading} ${row.textContent}`.toLowerCase()})));
  const told = (row, name, column) =>  // a line of skipped cases has one cell for all columns
    row.dataset.told ? JSON.parse(row.dataset.told)[name] ?? [] : [row.cells[column].textContent];
  const offered = (name, read) => {
    const values = [...new Set(lines.flatMap(read))];
    if (values.length < 2) return [];
    const choice = labelled(name, document.createElement("select"));
    choice.name = name;
    choice.add(new Option("all", ""));
    values.sort(compare).forEach((text) => choice.add(new Option(text || "none", text || " ")));
    return [(line) => !choice.value || read(line).includes(choice.value.trim())];
  };
  const choices = [
    ...JSON.parse(table.dataset.filters).flatMap((name, place) =>
      offered(name, ({work}) => [work.values[place]])),
    ...heads.flatMap((head, column) => head.classList.contains("filtered")
      ? offered(head.textContent, ({row}) => told(row, head.textContent, column)) : []),
  ];
  const count = document.createElement("output");
  const filter = () => {
    const wanted = search.value.toLowerCase().split(/\s+/);
    lines.forEach((line) => {
      line.row.hidden = !wanted.every((word) => line.text.includes(word)) ||
        !choices.every((keeps) => keeps(line));
    });
    works.forEach(({body, rows}) => { body.hidden = rows.every((row) => row.hidden); });
    count.value = `${lines.filter(({row}) => !row.hidden).length} of ${lines.length} rows`;
  };
  filters.append(count);
  ["input", "change"].forEach((event) => filters.addEventListener(event, filter));
  filters.addEventListener("submit", (event) => event.preventDefault());
  table.parentElement.before(filters);
  filter();
})();
