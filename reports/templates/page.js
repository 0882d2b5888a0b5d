"use strict";

// The data behind the page, as a file.
const download = document.getElementById("download");
if (download) download.hidden = false;
download?.addEventListener("click", () => {
  const blob = new Blob([document.getElementById("data").textContent], { type: "application/json" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = download.dataset.name;
  link.click();
  URL.revokeObjectURL(link.href);
});

// A link to a question opens it.
const openTarget = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) {
    target.open = true;
    target.scrollIntoView();
  }
};
addEventListener("hashchange", openTarget);
openTarget();

// Its address, to send on: a click copies it and leaves it in the address bar.
for (const link of document.querySelectorAll("a.copy")) {
  link.addEventListener("click", () => {
    const said = link.textContent;
    navigator.clipboard?.writeText(link.href).then(() => {
      link.textContent = "Link copied";
      link.addEventListener("blur", () => { link.textContent = said; }, { once: true });
    }, () => {});
  });
}

// Disagreements of a suite: some of them, in another order.
const orders = {
  listed: () => 0,
  item: (a, b) => a.name.localeCompare(b.name, "en", { numeric: true }),
  tokens: (a, b) => b.tokens - a.tokens,
};
for (const form of document.querySelectorAll("form.tools")) {
  const list = form.nextElementSibling;
  const rows = [...list.children].map((element) => ({
    element,
    name: element.querySelector(".item").textContent,
    kind: element.dataset.kind,
    tokens: Number(element.dataset.tokens),
  }));
  const apply = () => {
    const { kind, order, words } = Object.fromEntries(new FormData(form));
    const wanted = words.trim().toLowerCase();
    let shown = 0;
    for (const { element, kind: own } of rows) {
      element.hidden = (kind !== "" && own !== kind)
        || (wanted !== "" && !element.textContent.toLowerCase().includes(wanted));
      shown += !element.hidden;
    }
    list.append(...[...rows].sort(orders[order]).map((row) => row.element));
    form.querySelector("output").textContent = `${shown} of ${rows.length} shown`;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
}

// Paper cannot be clicked.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const details of opened) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of opened) details.open = false;
});
