// Sorting and filtering of the table; without this script it is whole and in reading order.
(() => {
  const table = document.getElementById("table");
  const body = table.tBodies[0], rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];

  const value = (row, column) => {
    const cell = row.cells[column];
    if (!cell || cell.colSpan > 1 || cell.textContent === "–") return null;
    return cell.dataset.key === undefined ? cell.textContent : Number(cell.dataset.key);
  };
  const compare = (one, other) =>
    typeof one === "number" ? one - other : one.localeCompare(other, "en", {numeric: true});
  const sort = (column, sign) => {
    const keyed = rows.map((row) => [value(row, column), row]);
    keyed.sort(([one], [other]) =>  // what is unknown comes last either way
      one === null || other === null ? (one === null) - (other === null) : sign * compare(one, other));
    body.append(...keyed.map(([, row]) => row));
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
  const choices = heads.flatMap((head, column) => {
    if (!head.classList.contains("filtered")) return [];
    const values = [...new Set(rows.map((row) => row.cells[column].textContent))];
    if (values.length < 2) return [];
    const choice = labelled(head.textContent, document.createElement("select"));
    choice.name = head.textContent;
    choice.add(new Option("all", ""));
    values.sort(compare).forEach((text) => choice.add(new Option(text || "none", text || " ")));
    return [[choice, column]];
  });
  const count = document.createElement("output");
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const filter = () => {
    const wanted = search.value.toLowerCase().split(/\s+/);
    let shown = 0;
    rows.forEach((row, place) => {
      row.hidden = !wanted.every((word) => texts[place].includes(word)) ||
        choices.some(([choice, column]) =>
          choice.value && choice.value.trim() !== row.cells[column].textContent);
      shown += !row.hidden;
    });
    count.value = `${shown} of ${rows.length} rows`;
  };
  filters.append(count);
  ["input", "change"].forEach((event) => filters.addEventListener(event, filter));
  filters.addEventListener("submit", (event) => event.preventDefault());
  table.parentElement.before(filters);
  filter();
})();
