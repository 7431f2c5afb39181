// Adds a copy button to each command; if copying is not allowed, it selects the command.
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
    const name = code.closest("li").querySelector(".name").textContent;
    button.setAttribute("aria-label", `copy the command of ${name}`);
    button.addEventListener("click", () => copy(code, button));
    code.before(button);
  });
})();
