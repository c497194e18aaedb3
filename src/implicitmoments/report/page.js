document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copies]");
  if (!button) return;
  const table = document.getElementById(button.dataset.copies);
  const cell = (c) => c.dataset.v ?? c.textContent.trim();
  const text = [...table.rows].map((row) => [...row.cells].map(cell).join("\t")).join("\n");
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
});
