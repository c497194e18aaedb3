"use strict";
// The page is complete without this script, which shows its controls.
const all = (what) => [...document.querySelectorAll(what)];
all(".choose, button[data-copies]").forEach((part) => { part.hidden = false; });

// Highlight groups: those that are pressed, or the one under the pointer.
const chosen = new Set();
const groupOf = (mark) => mark.dataset.group ?? mark.id.split("-")[1];
const show = (groups) => all('[data-group], svg [id^="group-"]').forEach((mark) => {
  mark.classList.toggle("faded", groups.size > 0 && !groups.has(groupOf(mark)));
});
document.addEventListener("pointerover", (event) => {
  const mark = event.target.closest('svg [id^="group-"]');
  show(mark && !chosen.size ? new Set([groupOf(mark)]) : chosen);
});

// Show one column, larger, or all of them.
const choice = document.getElementById("column");
if (choice) choice.addEventListener("change", () => {
  const figures = all("figure[data-column]");
  figures.forEach((figure) => {
    figure.hidden = choice.value !== "" && figure.dataset.column !== choice.value;
  });
});

const copy = async (button) => {
  const cell = (c) => c.dataset.v ?? c.textContent.trim();
  const parts = all(`table[data-part="${button.dataset.copies}"]`);
  const lines = [...parts[0].rows].map((_, i) => parts.flatMap((part, p) =>
    [...part.rows[i].cells].slice(p ? 1 : 0).map(cell)).join("\t"));
  const text = lines.join("\n");
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  const words = button.textContent;
  button.textContent = done ? "Copied" : "Select the table to copy it";
  setTimeout(() => { button.textContent = words; }, 1500);
};
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.copies) copy(button);
  const group = button.dataset.chooses;
  if (group === undefined) return;
  if (!chosen.delete(group)) chosen.add(group);
  button.setAttribute("aria-pressed", String(chosen.has(group)));
  show(chosen);
});

// A printed page shows tables that are folded on the screen.
addEventListener("beforeprint", () => all("details").forEach((part) => { part.open = true; }));
