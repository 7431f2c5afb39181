// Adds a copy button to each command and program; if copying is not allowed, it selects the text.
(() => {
  const copy = async (code, button) => {
    getSelection().selectAllChildren(code);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "copied";
    } catch {
      button.textContent = document.execCommand("copy") ? "copied" : "selected: press Ctrl-C";
    }
    setTimeout(() => { button.textContent = "copy"; }, 2000);
  };
  document.querySelectorAll(".command code").forEach((code) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "copy";
    button.setAttribute("aria-label", `copy the ${code.dataset.of}`);
    button.addEventListener("click", () => copy(code, button));
    code.before(button);
  });
})();
