// On a phone a row of a table with three columns or more is a block, each cell behind the name of its column (site.css).
// Tables of numbers, and of a yes and no, stay as they are.
for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
  const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent);
  if (names.length < 3 || table.querySelector("td[style*=right]")) continue;
  if ([...table.querySelectorAll("td:not(:first-child)")].every((cell) => cell.textContent.length < 6)) continue;
  table.dataset.rows = "";
  for (const row of table.querySelectorAll("tbody tr"))
    [...row.cells].forEach((cell, column) => { cell.dataset.name = names[column]; });
}
