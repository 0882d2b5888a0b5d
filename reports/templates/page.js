"use strict";

// The data behind the page, as a file.
const download = document.getElementById("download");
download.hidden = false;
download.addEventListener("click", () => {
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

// Paper cannot be clicked.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const details of opened) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of opened) details.open = false;
});
