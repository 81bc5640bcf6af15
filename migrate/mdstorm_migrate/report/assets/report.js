
"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const one = (id) => document.getElementById(id);
  document.documentElement.classList.add("js");

  // The filter shows items with a ticked class and rule, in files whose path matches.
  const boxes = all("#filters input[type=checkbox]");
  const files = all("details.file").map((element) => ({
    element,
    path: element.dataset.path.toLowerCase(),
    items: all(".item", element),
  }));
  const ticked = (name) =>
    new Set(boxes.filter((box) => box.name === name && box.checked).map((box) => box.value));

  function filter() {
    const classes = ticked("class");
    const rules = ticked("rule");
    const wanted = one("search").value.trim().toLowerCase();
    const matches = ({ dataset }) =>
      classes.has(dataset.class) && (dataset.rule === "" || rules.has(dataset.rule));
    let shown = 0;
    let count = 0;
    for (const file of files) {
      let items = 0;
      for (const item of file.items) {
        const visible = matches(item);
        item.hidden = !visible;
        items += visible;
      }
      const visible = items > 0 && file.path.includes(wanted);
      file.element.hidden = !visible;
      shown += visible;
      count += visible ? items : 0;
    }
    one("shown").textContent =
      `${shown.toLocaleString("en")} of ${files.length.toLocaleString("en")} files, ` +
      `${count.toLocaleString("en")} places`;
  }

  if (one("filters")) {
    one("filters").addEventListener("input", filter);
    one("filters").addEventListener("submit", (event) => event.preventDefault());
    all("#filters button[data-tick]").forEach((button) =>
      button.addEventListener("click", () => {
        boxes.filter((box) => box.name === button.dataset.tick)
          .forEach((box) => { box.checked = button.dataset.to === "all"; });
        filter();
      }));
    const fold = (open) => files.forEach((file) => {
      if (!file.element.hidden) file.element.open = open;
    });
    one("expand").addEventListener("click", () => fold(true));
    one("collapse").addEventListener("click", () => fold(false));
    filter();
  }

  // The checklist: this browser keeps ticks, even for the report of the next run.
  const KEY = "mdstorm-migrate-checklist";
  const ticks = all(".todo input");
  function load() {
    try {
      return new Set(JSON.parse(localStorage.getItem(KEY) || "[]"));
    } catch {
      return new Set(); // without storage, ticks last until the page is closed
    }
  }
  function save() {
    const done = load();
    for (const tick of ticks) done[tick.checked ? "add" : "delete"](tick.value);
    try {
      localStorage.setItem(KEY, JSON.stringify([...done]));
    } catch { /* as above */ }
    progress();
  }
  const groups = all(".todo .group").map((group) => ({
    element: group, text: group.dataset.text.toLowerCase(),
    places: all("li", group).map((place) => ({
      element: place, path: place.dataset.place.toLowerCase(),
    })),
  }));
  function search() {
    const wanted = one("todo-search").value.trim().toLowerCase();
    let shown = 0;
    for (const group of groups) {
      let places = 0;
      for (const place of group.places) {
        const visible = group.text.includes(wanted) || place.path.includes(wanted);
        place.element.hidden = !visible;
        places += visible;
      }
      group.element.hidden = places === 0;
      shown += places;
    }
    one("todo-shown").textContent = wanted ? `${shown.toLocaleString("en")} shown` : "";
  }
  function progress() {
    const done = ticks.filter((tick) => tick.checked).length;
    one("done").value = done;
    one("done-text").textContent = `${done} of ${ticks.length} done`;
  }
  function markdown() {
    const lines = ["# Left to do by hand"];
    for (const group of groups) {
      lines.push("", `## ${group.element.dataset.text}`, "");
      for (const { element } of group.places) {
        const done = element.querySelector("input").checked;
        lines.push(`- [${done ? "x" : " "}] ${element.dataset.place}`);
      }
    }
    return lines.join("\n") + "\n";
  }
  if (ticks.length) {
    const done = load();
    ticks.forEach((tick) => { tick.checked = done.has(tick.value); });
    ticks.forEach((tick) => tick.addEventListener("change", save));
    progress();
    const page = document.body.classList;
    one("todo-search").addEventListener("input", search);
    all(".tick-all").forEach((button) => button.addEventListener("click", () => {
      const shown = all("li:not([hidden]) input", button.parentElement);
      const done = shown.every((tick) => tick.checked);
      shown.forEach((tick) => { tick.checked = !done; });
      save();
    }));
    one("print").addEventListener("click", () => {
      page.add("list-only");
      all(".todo details").forEach((group) => { group.open = true; });
      window.print();
    });
    window.addEventListener("afterprint", () => page.remove("list-only"));
    one("export").addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([markdown()], { type: "text/markdown" }));
      link.download = "migration-checklist.md";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }
  // A link to a rule unfolds the rule.
  window.addEventListener("hashchange", () => {
    const target = one(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") target.open = true;
  });
})();
