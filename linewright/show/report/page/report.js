// Draws a report's charts, re-draws them when the colours change, and makes the table of cells sortable and filterable.
// Everything from records goes into the page as text, never as markup.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const views = new Map();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const id = (name) => document.getElementById(name);

  function make(tag, text, attributes = {}) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

  // ------------------------------------------------------------------------------------------------------ colours

  const remembered = { get: () => { try { return localStorage.getItem("linewright-theme"); } catch { return null; } },
                       set: (value) => { try { localStorage.setItem("linewright-theme", value); } catch { /* not kept */ } } };

  function mode() {
    const chosen = id("theme").value;
    return chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
  }

  function colour() {
    const chosen = id("theme").value;
    if (chosen === "auto") delete root.dataset.theme; else root.dataset.theme = chosen;
    return drawAll();
  }

  // ------------------------------------------------------------------------------------------------------- charts

  function signals(figure) {
    const selects = figure.closest("section").querySelectorAll("select[data-signal]");
    return [...selects].map((select) => [select.dataset.signal, select.value]);
  }

  async function draw(figure, colours) {
    const chart = figure.querySelector(".chart");
    const spec = figure.id === "figure-explore" ? asked() : structuredClone(data.figures[figure.dataset.figure].spec);
    const values = new Map(signals(figure));
    for (const param of spec.params ?? []) if (values.has(param.name)) param.value = values.get(param.name);
    views.get(figure)?.finalize();
    const { left, least, row } = spec.usermeta, above = row && left > 0.3 * chart.parentElement.clientWidth;
    if (above) namesAbove(spec, row);
    if (least) chart.style.minWidth = `${above ? least - left : least}px`;
    const config = structuredClone(data.themes[colours]), room = chart.clientWidth - (above ? 0 : left);
    // Where there is room for one part at least, as many as there is room for; else all in a row to scroll along.
    if (spec.usermeta.abreast) spec.columns = Math.floor(room / spec.usermeta.abreast) || undefined;
    config.legend.columns = Math.max(1, Math.floor(room / (50 + 7 * spec.usermeta.legend)));
    const made = await vegaEmbed(chart, spec, {
      actions: false, renderer: "svg", ast: true, config, logLevel: 1, tooltip: { theme: "custom" }, mode: "vega-lite",
    });
    // The container speaks for the picture; its parts would only repeat numbers that the table gives in order.
    chart.querySelector("svg")?.setAttribute("aria-hidden", "true");
    chart.dataset.drawn = colours;
    views.set(figure, made);
  }

  // Names of rows above what they name, where beside it they would leave it no room.
  const NAME_PX = 20;
  function namesAbove(spec, row) {
    const step = row + NAME_PX, thick = 0.8 * row, apart = 1 - thick / step, inner = spec.spec ?? spec;
    for (const { encoding: { y } } of inner.layer) {
      y.axis = { ...y.axis, labelAlign: "left", labelPadding: 0, labelOffset: -(thick / 2 + 9) };
      y.scale = { ...y.scale, paddingInner: apart, paddingOuter: apart / 2 };
    }
    if (inner.height.step) inner.height.step = step;
    else inner.height *= step / row;
  }

  // Paper is light: there a dark theme's inks give way to the light one's. To draw again would take longer than printing waits.
  const lightened = [];
  function pairs(from, to) {
    return Object.keys(from).flatMap((key) => (typeof from[key] === "object" && from[key] ? pairs(from[key], to[key]) : [[from[key], to[key]]]));
  }
  function lighten() {
    const inks = new Map(pairs(data.themes.dark, data.themes.light));
    for (const shape of document.querySelectorAll("[data-drawn=dark] svg *")) {
      for (const name of ["fill", "stroke"]) {
        const ink = shape.getAttribute(name);
        if (!inks.has(ink) || inks.get(ink) === ink) continue;
        lightened.push([shape, name, ink]);
        shape.setAttribute(name, inks.get(ink));
      }
    }
  }

  let turn = 0;
  async function drawAll() {
    const mine = ++turn, colours = mode();
    delete root.dataset.ready;
    for (const figure of document.querySelectorAll("figure[data-figure]")) {
      if (mine !== turn) return;
      try {
        await draw(figure, colours);
      } catch (error) {
        figure.querySelector(".chart").textContent = `This chart could not be drawn: ${error.message}`;
        console.error(error);
      }
      await new Promise((done) => setTimeout(done));
    }
    if (mine === turn) root.dataset.ready = colours;
  }

  async function set(select) {
    for (const figure of select.closest("section").querySelectorAll("figure[data-figure]")) {
      const view = views.get(figure)?.view;
      if (!view) continue;
      const known = (data.figures[figure.dataset.figure].spec.params ?? []).some((param) => param.name === select.dataset.signal);
      if (known) await view.signal(select.dataset.signal, select.value).runAsync();
    }
  }

  function save(name, url) {
    const link = make("a", undefined, { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
  }

  async function picture(figure, kind) {
    const view = views.get(figure)?.view;
    if (view) save(`linewright-${figure.dataset.figure}.${kind}`, await view.toImageURL(kind, 2));
  }

  // ----------------------------------------------------------------------------------------------------- explorer

  const SHAPES = ["circle", "square", "triangle-up", "diamond"], REACH = 5, PLACE_PX = 64, several = data.explorer
    && new Set(data.explorer.rows.map((row) => row.series)).size > 1;
  const ask = (name) => id(`explore-${name}`).value;

  // Fills a choice and keeps what was chosen, or else the first, where that is still possible.
  function offer(name, found) {
    const select = id(`explore-${name}`), before = select.value;
    select.replaceChildren(...found.map(([value, text]) => make("option", text, { value })));
    if (found.some(([value]) => value === before)) select.value = before;
    select.disabled = found.length < 2;
    return select.value;
  }

  const counted = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
  const distinct = (values) => [...new Set(values)];

  // The points on an axis by what is held there; where anything has several places, that alone.
  function groups(rows, axis) {
    const found = Map.groupBy(rows.filter((row) => row.at[axis]), (row) => row.at[axis][1]);
    return [...found].filter(([, own]) => distinct(own.map((row) => row.at[axis][0])).length > 1);
  }

  // Each choice offers what those before it leave; returns the rows to draw.
  function chosenRows() {
    const { operations, figures, axes, rows } = data.explorer;
    const operation = ask("operation") || operations[0][0];
    const machine = offer("machine", [["", "all"], ...distinct(rows.map((row) => row.series)).map((name) => [name, name])]);
    const own = rows.filter((row) => row.operation === operation && (!machine || row.series === machine));
    const figure = offer("figure", figures.filter((f) => own.some((row) => row[f.name] !== null)).map((f) => [f.name, f.title]));
    const known = own.filter((row) => row[figure] !== null && (row[figure] > 0 || !figures.find((f) => f.name === figure).log));
    const along = axes.filter((a) => groups(known, a.name).length);
    const axis = offer("axis", (along.length ? along : axes.slice(0, 1)).map((a) => [a.name, a.title]));
    const held = offer("held", (along.length ? groups(known, axis) : [...Map.groupBy(known, (row) => row.at[axis][1])]).map(([text]) => [text, text || "nothing"]));
    return known.filter((row) => row.at[axis]?.[1] === held).map((row) => ({ ...row, held,
      place: row.at[axis][0], name: several ? `${row.form}, ${row.series}` : row.form }));
  }

  function asked() {
    const found = chosenRows(), { figures, axes, operations } = data.explorer;
    const figure = figures.find((f) => f.name === ask("figure")), axis = axes.find((a) => a.name === ask("axis"));
    const at = (row) => axis.places.indexOf(row.place);
    found.sort((a, b) => at(a) - at(b));
    const places = distinct(found.map((row) => row.place)), shownForms = distinct(found.map((row) => row.form));
    // A scale gives colours by place: names of no form stand where other forms have theirs.
    const forms = [];
    for (const form of shownForms) forms[data.explorer.colours[form]] = form;
    for (let place = 0; place < forms.length; place++) forms[place] ??= `(${place})`;
    const spec = structuredClone(figure.spec), { x, xOffset, y, color } = spec.encoding;
    const { shape } = spec.layer.find((layer) => layer.encoding.shape).encoding;
    spec.datasets = { rows: found };
    x.title = axis.title;
    x.scale = { domain: places };
    // Points of a place stand close together, apart from those of the next.
    xOffset.scale = { paddingOuter: distinct(found.map((row) => row.name)).length };
    const chart = id("figure-explore").querySelector(".chart");
    chart.style.minWidth = `${60 + PLACE_PX * places.length}px`;
    const letters = Math.max(PLACE_PX, (chart.clientWidth - 60) / places.length) / 7;
    x.axis.labelExpr = `(${JSON.stringify(Object.fromEntries(places.map((place) => [place, broken(place, letters)])))})[datum.label]`;
    for (const channel of [color, shape]) channel.legend.values = shownForms;
    color.scale = { domain: forms };
    shape.scale = { domain: forms, range: forms.map((_, index) => SHAPES[Math.floor(index / 16) % SHAPES.length]) };
    const dashed = spec.layer.find((layer) => layer.encoding.strokeDash);
    if (dashed) dashed.encoding.strokeDash.legend.values = distinct(found.map((row) => row.series));
    spec.usermeta.legend = Math.max(...shownForms.map((form) => form.length));
    if (figure.log) {
      y.scale.domain = reach(found, figure.name);
      y.axis.values = ticks(...y.scale.domain);
    }
    const words = operations.find(([name]) => name === ask("operation"))[1];
    id("explore-caption").textContent = `${words}: ${figure.title}`;
    id("explore-said").textContent = `${counted(shownForms.length, "form")}, ${counted(places.length, "place")} along ${axis.title}; held: ${ask("held") || "nothing"}.`;
    pivot(found, places, figure, axis);
    return spec;
  }

  // A text in lines of so many letters.
  function broken(text, letters) {
    const lines = [""];
    for (const word of text.split(" ")) {
      if (lines.at(-1) && lines.at(-1).length + word.length + 1 > letters) lines.push(word);
      else lines.push(`${lines.pop()} ${word}`.trim());
    }
    return lines;
  }

  // The ends of a logarithmic axis: intervals count, but one far beyond all medians does not compress the rest.
  function reach(found, name) {
    const all = (end) => found.map((row) => row[name + end]).filter((value) => value > 0), medians = all("");
    const low = Math.max(Math.min(...medians, ...all("_low")), Math.min(...medians) / REACH);
    const high = Math.min(Math.max(...medians, ...all("_high")), Math.max(...medians) * REACH);
    return [low / 1.15, high * 1.15];
  }

  // Ticks of a logarithmic axis: 1, 2 and 5 of each decade, powers of ten over many; nothing where these are too few.
  function ticks(low, high) {
    const found = [], steps = high > 1500 * low ? [1] : [1, 2, 5];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      found.push(...steps.map((step) => Number(`${step}e${power}`)).filter((value) => low <= value && value <= high));
    }
    return found.length > 2 ? found : undefined;
  }

  // The same figures as a table: a line for each form, a column for each place.
  function pivot(found, places, figure, axis) {
    const table = id("explore-table"), head = make("tr"), brief = (value) => (Math.abs(value) < 100 ? value.toPrecision(3) : String(Math.round(value)));
    head.append(make("th", "form", { scope: "col" }), ...places.map((place) => make("th", place, { scope: "col", class: "number" })));
    const lines = [...Map.groupBy(found, (row) => row.name)].map(([name, own]) => {
      const line = make("tr");
      line.append(make("th", name, { scope: "row" }));
      for (const place of places) {
        const row = own.find((r) => r.place === place), low = row?.[`${figure.name}_low`], high = row?.[`${figure.name}_high`];
        const range = low !== undefined && low !== null ? ` (${brief(low)} to ${brief(high)})` : "";
        line.append(make("td", row ? `${brief(row[figure.name])}${range}${row.mark}` : "", { class: "number" }));
      }
      return line;
    });
    table.caption.textContent = `${id("explore-caption").textContent}, by ${axis.title}`;
    table.tHead.replaceChildren(head);
    table.tBodies[0].replaceChildren(...lines);
  }

  function startExplorer() {
    if (!data.explorer) return;
    for (const [family, own] of Map.groupBy(data.explorer.operations, (operation) => operation[2])) {
      const group = make("optgroup", undefined, { label: family });
      group.append(...own.map(([value, text]) => make("option", text, { value })));
      id("explore-operation").append(group);
    }
    for (const select of id("explore-controls").querySelectorAll("select")) {
      select.addEventListener("change", () => draw(id("figure-explore"), mode()));
    }
  }

  // A chart's own data as a table, for those who read rather than look.
  function tabulate(button) {
    const figure = button.closest("figure"), place = figure.querySelector(".figure-data");
    const open = place.hidden;
    place.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    if (!open || place.childElementCount) return;
    const { spec, title } = data.figures[figure.dataset.figure];
    const rows = Object.values(spec.datasets ?? {}).sort((a, b) => b.length - a.length)[0] ?? [];
    const names = [...new Set(rows.flatMap(Object.keys))].filter((name) => rows.some((row) => row[name] !== null && row[name] !== ""));
    const table = make("table", undefined, { class: "grid" }), head = table.createTHead().insertRow(), body = table.createTBody();
    table.prepend(make("caption", `Data of ${title}`));
    for (const name of names) head.append(make("th", name.replaceAll("_", " "), { scope: "col" }));
    for (const row of rows) {
      const line = body.insertRow();
      for (const name of names) line.append(make("td", shown(row[name]), typeof row[name] === "number" ? { class: "number" } : {}));
    }
    place.setAttribute("tabindex", "0");
    place.setAttribute("role", "group");
    place.setAttribute("aria-label", `Data of ${title}`);
    place.append(table);
  }

  function shown(value) {
    return value === null || value === undefined ? "" : typeof value === "number" ? String(Number(value.toPrecision(5))) : String(value);
  }

  // -------------------------------------------------------------------------------------------------------- cells

  const PAGE = 100;
  const columns = data.columns, at = Object.fromEntries(columns.map((column, index) => [column.name, index]));
  const words = data.cells.map((row) => row.filter((value) => typeof value === "string").join(" ").toLowerCase());
  let order = { column: -1, up: true }, limit = PAGE, chosen = [];

  function options(select, column) {
    for (const value of new Set(data.cells.map((row) => row[column]))) select.append(make("option", value, { value }));
  }

  function choose() {
    const wanted = id("cell-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const operation = id("cell-operation").value, contender = id("cell-contender").value;
    chosen = data.cells.map((row, index) => index).filter((index) => {
      const row = data.cells[index];
      return (!operation || row[at.operation] === operation) && (!contender || row[at.contender] === contender)
        && wanted.every((word) => words[index].includes(word));
    });
    if (order.column >= 0) {
      const value = (index) => data.cells[index][order.column], sign = order.up ? 1 : -1;
      chosen.sort((a, b) => {
        const x = value(a), y = value(b), noX = x === null || x === "", noY = y === null || y === "";
        if (noX || noY) return noX - noY || a - b;
        return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true })) || a - b;
      });
    }
    fill();
  }

  const every = columns.map((column, index) => index);
  const first = every.filter((index) => columns[index].first !== null).sort((a, b) => columns[a].first - columns[b].first);
  const visible = () => (id("cell-all").checked ? every : first);

  function fill() {
    const head = make("tr"), body = id("cell-table").tBodies[0], shownColumns = visible();
    for (const index of shownColumns) {
      const heading = make("th", undefined, { scope: "col" }), button = make("button", columns[index].label, { type: "button", title: columns[index].name });
      if (columns[index].number) heading.className = "number";
      if (order.column === index) heading.setAttribute("aria-sort", order.up ? "ascending" : "descending");
      button.addEventListener("click", () => {
        order = { column: index, up: order.column === index ? !order.up : true };
        choose();
        id("cell-table").tHead.querySelectorAll("button")[shownColumns.indexOf(index)].focus();
      });
      heading.append(button);
      head.append(heading);
    }
    id("cell-table").tHead.replaceChildren(head);
    const lines = chosen.slice(0, limit).map((index) => {
      const line = make("tr");
      for (const column of shownColumns) {
        line.append(make("td", shown(data.cells[index][column]), { class: columns[column].number ? "number" : columns[column].name }));
      }
      return line;
    });
    body.replaceChildren(...lines);
    const drawn = Math.min(limit, chosen.length);
    id("cell-count").textContent = `${chosen.length} of ${data.cells.length} cells${drawn < chosen.length ? `, the first ${drawn} shown` : ""}`;
    id("cell-more").hidden = drawn >= chosen.length;
  }

  // A text that a spreadsheet would take for a formula is quoted.
  function quoted(value) {
    if (value === null || value === undefined) return "";
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  function csv() {
    const lines = [columns.map((column) => column.name), ...chosen.map((index) => data.cells[index])];
    const blob = new Blob([lines.map((line) => line.map(quoted).join(",") + "\n").join("")], { type: "text/csv" });
    download("linewright-cells.csv", blob);
  }

  function download(name, blob) {
    const url = URL.createObjectURL(blob);
    save(name, url);
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  }

  async function records() {
    const packed = Uint8Array.from(atob(id("records").textContent), (character) => character.charCodeAt(0));
    const blob = new Blob([packed], { type: "application/gzip" });
    if (typeof DecompressionStream === "undefined") return download("linewright-records.jsonl.gz", blob);
    const lines = await new Response(blob.stream().pipeThrough(new DecompressionStream("gzip"))).blob();
    return download("linewright-records.jsonl", lines);
  }

  // ------------------------------------------------------------------------------------------------------- wiring

  options(id("cell-operation"), at.operation);
  options(id("cell-contender"), at.contender);
  for (const name of ["cell-filter", "cell-operation", "cell-contender"]) {
    id(name).addEventListener("input", () => { limit = PAGE; choose(); });
  }
  id("cell-all").addEventListener("change", fill);
  id("cell-more").addEventListener("click", () => { limit += 5 * PAGE; fill(); });
  id("cell-csv").addEventListener("click", csv);
  id("records-save").addEventListener("click", records);
  id("print").addEventListener("click", () => print());
  addEventListener("beforeprint", () => {
    limit = Infinity;
    fill();
    for (const folded of document.querySelectorAll("details")) folded.open = true;
    lighten();
  });
  addEventListener("afterprint", () => {
    limit = PAGE;
    fill();
    for (const [shape, name, ink] of lightened.splice(0)) shape.setAttribute(name, ink);
  });
  for (const select of document.querySelectorAll("select[data-signal]")) select.addEventListener("change", () => set(select));
  for (const button of document.querySelectorAll("button[data-save]")) {
    button.addEventListener("click", () => picture(button.closest("figure"), button.dataset.save));
  }
  for (const button of document.querySelectorAll("button[data-table]")) button.addEventListener("click", () => tabulate(button));

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of document.querySelectorAll("nav a")) link.removeAttribute("aria-current");
      document.querySelector(`nav a[href="#${entry.target.id}"]`)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  for (const section of document.querySelectorAll("main > section")) seen.observe(section);

  const before = remembered.get();
  if (["light", "dark"].includes(before)) id("theme").value = before;
  id("theme").addEventListener("change", () => { remembered.set(id("theme").value); colour(); });
  dark.addEventListener("change", () => { if (id("theme").value === "auto") colour(); });
  choose();
  startExplorer();
  colour();
})();
