"use strict";
const byId = id => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const COLOURS = {"gemm.fused": "gemm", "gemm.map": "map", "gemm.finalize": "finalize"};
const GUTTER = 132, SPINES = 24, THREADS = 26, EDGE = 8, GAP = 14, LINE = 19, MARGIN = 500, WIDEST = 18, PAPER = 980;
const programs = [...pairs(data.functions), ...data.functions.map(part => joined([part]))];
const state = {program: programs[0], level: 0, lit: new Set(), before: true, columns: [], lines: [], printing: false};
const HINT = "The operators by themselves, before fusion, are hidden: b, or the button Before, shows them.";

// ---------------------------------------------------------------- elements and texts

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function shape(tag, attributes, text) {
  const made = document.createElementNS(byId("drawing").namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function placed(made, {left, top, width, height}) {
  for (const [name, value] of Object.entries({left, top, width, height})) if (value !== undefined) made.style[name] = `${value}px`;
  return made;
}

function scaled(value, units) {
  let unit = 0;
  while (unit + 1 < units.length && value >= 999.5) { value /= 1000; unit++; }
  return `${value >= 99.95 || value === 0 || (unit === 0 && units[0] === "B") ? Math.round(value) : value.toPrecision(value < 1 ? 2 : 3)} ${units[unit]}`;
}

const bytes = value => scaled(value, ["B", "kB", "MB", "GB", "TB"]);
const time = us => scaled(us, ["µs", "ms", "s"]);
const exact = size => size.symbolic ? `${size.symbolic.replaceAll("*", "·")} bytes` : `${size.bytes.toLocaleString("en")} bytes`;
const named = tensor => tensor.name ? `${tensor.name}: ${tensor.type}` : tensor.type;
const percent = share => `${Math.round(100 * share)} %`;
const lastName = name => name.replace(/\.weight$/, "").replace(/^.*\./, "");

const pen = document.createElement("canvas").getContext("2d");
const widths = new Map();

function widthOf(text, font) {
  const key = `${font}|${text}`;
  if (!widths.has(key)) { pen.font = font; widths.set(key, pen.measureText(text).width); }
  return widths.get(key);
}

function wrapped(text, width, font) {
  const lines = [];
  let line = "";
  for (const word of text.split(/\s+/)) {
    const longer = line ? `${line} ${word}` : word;
    if (line && widthOf(longer, font) > width) { lines.push(line); line = word; } else line = longer;
  }
  return [...lines, line];
}

function shortened(text, width, font) {
  if (widthOf(text, font) <= width) return text;
  let length = text.length;
  while (length > 1 && widthOf(`${text.slice(0, length)}…`, font) > width) length--;
  return `${text.slice(0, length)}…`;
}

// ---------------------------------------------------------------- programs

// A forward program and its backward program are shown beside each other.
function pairs(functions) {
  const byName = new Map(functions.map(part => [part.name, part]));
  return functions.flatMap(part => {
    const backward = part.name.endsWith("_forward") && byName.get(part.name.replace(/forward$/, "backward"));
    return backward ? [joined([part, backward])] : [];
  });
}

// One program of several functions: each is a column, and operators are numbered through.
function joined(parts) {
  let first = 0;
  const columns = parts.map(part => {
    const shift = first;
    first += part.operators.length;
    const kernels = part.kernels.map(kernel => ({
      ...kernel,
      operators: [...kernel.applied.map(id => ({id: id + shift, part: "applied to each row", thread: true})),
        ...kernel.operators.map(({id, part}) => ({id: id + shift, part}))],
    }));
    return {...part, first: shift, kernels};
  });
  const operators = parts.flatMap(part => part.operators);
  const lines = new Map();
  operators.forEach(({file, line}, index) => {
    const key = `${file}:${line}`;
    if (!lines.has(key)) lines.set(key, []);
    lines.get(key).push(index);
  });
  return {name: parts.map(part => part.name).join(" and "), columns, operators, lines, files: Object.assign({}, ...parts.map(part => part.files))};
}

// Operators of one line of the source: those of all layers, as equal kernels are emitted once, and
// those in one expression of the emitted text.
function besides(program, column, id) {
  const op = program.operators[column.first + id];
  return op.line ? program.lines.get(`${op.file}:${op.line}`) : [column.first + id];
}

// The kernels in runs of equal ones: `times` copies of `length` kernels.
function runsOf(keys) {
  const found = [];
  for (let start = 0; start < keys.length;) {
    const run = longestRun(keys, start);
    found.push(run);
    start += run.length * run.times;
  }
  return found;
}

function longestRun(keys, start) {
  let best = {start, length: 1, times: 1};
  for (let length = 1; start + 2 * length <= keys.length; length++) {
    if (keys[start] !== keys[start + length]) continue;
    let end = start + length;
    while (end < keys.length && keys[end] === keys[end - length]) end++;
    const times = Math.floor((end - start) / length);
    if (times > 1 && length * times > Math.max(3, best.length * best.times)) best = {start, length, times};
    if (best.times > 1 && best.length * best.times >= keys.length - start - length) break;
  }
  return best;
}

function kernelKey(kernel) {
  const parts = kernel.operators.map(({id, part}) => {
    const op = state.program.operators[id];
    return [op.name, part, op.refusals.map(found => found.condition)];
  });
  return JSON.stringify([kernel.kind, kernel.name, kernel.size, parts]);
}

function layerOf(kernel) {
  const names = kernel.operators.map(({id}) => state.program.operators[id].module.match(/^(\D*\d+)(\.|$)/));
  return (names.find(Boolean) || [])[1];
}

// ---------------------------------------------------------------- the picture: rows of boxes beside memory

// A column of the picture: rows of known heights, of which those in sight have elements.
class Column {
  constructor(part) {
    this.part = part;
    this.open = new Set();
    this.shown = new Map();
    this.most = Math.max(1, ...part.tensors.map(tensor => tensor.bytes));
    this.main = part.kernels.map(kernel => kernel.operators.filter(({part}) => part !== "once per weight"));
    this.owner = new Map();
    this.main.forEach((ops, number) => ops.forEach(({id, thread}) => { if (!thread && !this.owner.has(id)) this.owner.set(id, number); }));
    this.place = element("div", "column");
    this.heads = element("div", "heads");
    this.holder = element("div", "rows");
    this.place.append(this.heads, this.holder);
  }

  layout(width, before) {
    const rest = width - GUTTER * (before ? 2 : 1) - (before ? SPINES : 0) - THREADS - 3 * EDGE;
    this.box = before ? Math.max(170, Math.floor(rest / 2)) : Math.max(220, rest);
    const spine = before ? EDGE + this.box + GUTTER : EDGE + 4;
    this.x = {apart: EDGE, left: spine, right: before ? spine + SPINES : spine, fused: (before ? spine + SPINES : spine) + GUTTER};
    this.x.threads = this.x.fused + this.box + 8;
    this.width = this.x.threads + THREADS - 4;
    this.before = before;
    this.rows = [];
    this.addRows();
    let top = 0;
    for (const row of this.rows) { row.top = top; top += row.height; }
    this.height = top;
    this.threads();
    placed(this.place, {width: Math.max(width, this.width)});
    placed(this.holder, {height: top});
    this.drawHeads();
    for (const node of this.shown.values()) node.remove();
    this.shown.clear();
  }

  drawHeads() {
    const {part, x, box} = this, head = (text, detail, left, width) => {
      const made = placed(element("h3", "", text), {left, width});
      made.append(" ", element("small", "", detail));
      made.title = `${text} ${detail}`;
      return made;
    };
    const {operators, kernels} = part.counts;
    const apart = this.before ? [head("Before", `${operators} operators, one by one`, x.apart, box)] : [];
    const memory = placed(element("h3", "", "Memory"), this.before ? {left: x.left - GUTTER, width: SPINES + 2 * GUTTER} : {left: x.left, width: GUTTER});
    if (this.before) memory.style.textAlign = "center";
    const title = state.program.columns.length > 1 ? part.name : "After";
    this.heads.replaceChildren(...apart, memory, head(title, `${kernels} kernels`, x.fused, box + THREADS));
  }

  addRows() {
    const {part} = this, names = ids => ids.map(id => named(part.tensors[id]));
    if (!this.before && !state.printing) this.note(HINT);
    const [weights, others] = [true, false].map(kind => part.arguments.filter(id => part.tensors[id].weight === kind));
    this.note(`Arguments: ${names(others).join(", ") || "none"}`);
    if (weights.length) this.note(`${weights.length} weights: ${names(weights).join(", ")}`);
    for (const run of runsOf(part.kernels.map(kernelKey))) this.addRun(run);
    this.note(`Results: ${names(part.results).join(", ")}`);
    const gone = part.operators.map((op, index) => [op, part.first + index]).filter(([op]) => !op.kernels.length);
    if (gone.length) this.note(`No kernel: ${gone.length} views, and operators folded into others`);
    for (let start = 0; start < gone.length; start += 3) {
      const some = gone.slice(start, start + 3).map(([, index]) => index);
      this.rows.push({height: 26, ops: some, draw: () => {
        const made = element("div", "gone");
        made.append(...some.map(index => chip([index], "")));
        return [made];
      }});
    }
    this.rows.push({height: 20, draw: () => []});
  }

  note(text) {
    this.rows.push({height: 29, draw: () => {
      const made = element("div", "note", text);
      made.title = text;
      return [made];
    }});
  }

  addRun({start, length, times}) {
    const {kernels} = this.part, open = this.open.has(start), layers = [];
    if (times === 1) { this.addKernel([start], false); return; }
    for (let n = 0; n < times; n++) layers.push(Array.from({length}, (_, index) => start + n * length + index));
    const [first, last] = [layers[0], layers[times - 1]].map(layer => layerOf(kernels[layer[0]]));
    this.rows.push({height: 38, inside: true, draw: () => {
      const made = element("button", "fold", `${times} × ${length} kernels`);
      made.append(" ", element("small", "", `${first ? `${first} … ${last} ` : ""}(${open ? "fold" : "show all"})`));
      made.setAttribute("aria-expanded", open);
      made.addEventListener("click", () => { if (open) this.open.delete(start); else this.open.add(start); drawKernels(); this.fold(start)?.focus(); });
      made.dataset.fold = start;
      return [made];
    }});
    if (open) layers.flat().forEach(number => this.addKernel([number], true));
    else layers[0].forEach((_, index) => this.addKernel(layers.map(layer => layer[index]), true));
    const hidden = open ? [] : layers.slice(1).flat();
    this.rows.push({height: 14, inside: true, hidden, draw: () => [element("div", "foot")]});
  }

  fold(start) { return this.holder.querySelector(`[data-fold="${start}"]`); }

  addKernel(numbers, inside) {
    const {kernels} = this.part, same = numbers.map(number => kernels[number]);
    const after = kernelBox(this, same, numbers[0]);
    const apart = [];
    let top = 0;
    if (this.before) {
      same[0].operators.forEach(({id, thread}, index) => {
        if (thread || this.owner.get(id) !== numbers[0] || state.program.operators[id].view) return;
        const box = apartBox(this, same.map(kernel => kernel.operators[index].id));
        apart.push({...box, top});
        top += box.height + 6;
      });
    }
    const height = Math.max(after.height, top - 6) + GAP;
    this.rows.push({
      height, inside, ops: same.flatMap(kernel => kernel.operators.map(({id}) => id)), parts: after.parts,
      draw: row => this.drawRow(row, apart, after),
    });
  }

  drawRow(row, apart, after) {
    const {x, box} = this, svg = shape("svg", {"aria-hidden": "true"}), cards = [];
    for (const at of this.before ? [x.left, x.right] : [x.right]) svg.append(shape("line", {class: "spine", x1: at, x2: at, y1: 0, y2: row.height}));
    for (const made of apart) {
      cards.push(placed(made.build(), {left: x.apart, top: made.top, width: box, height: made.height}));
      for (const access of made.accesses) svg.append(this.drawAccess(access, made.top, x.apart + box, x.left));
    }
    cards.push(placed(after.build(), {left: x.fused, top: 0, width: box, height: after.height}));
    for (const access of after.accesses) svg.append(this.drawAccess(access, 0, x.fused, x.right));
    for (const thread of row.threads || []) svg.append(this.drawThread(thread, row));
    return [svg, ...cards];
  }

  // A tensor on the line, and the edge between it and a box: as wide as the tensor has bytes.
  drawAccess({tensor, label, kind, write, y, wide, title}, top, edge, spine) {
    const made = shape("g", {class: "access"}), at = top + y, side = Math.sign(edge - spine);
    const [from, to] = write ? [edge, spine + side * 9] : [spine + side * 3, edge - side * 7];
    made.append(shape("title", {}, title));
    made.append(shape("line", {class: `edge ${kind}`, x1: from, x2: to, y1: at, y2: at, "stroke-width": wide.toFixed(1)}));
    const tip = write ? spine + side * 4 : edge, back = write ? side * 7 : -side * 7, half = Math.max(4, wide / 2 + 2);
    made.append(shape("path", {class: `head ${kind}`, d: `M${tip} ${at} l${back} ${-half} v${2 * half}z`}));
    made.append(shape("circle", {class: `dot ${kind} ${write ? "written" : ""}`, cx: spine, cy: at, r: 4}));
    const text = shape("text", {class: kind, x: (edge + spine) / 2, y: at - wide / 2 - 3, "text-anchor": "middle"});
    text.append(shape("tspan", {}, label.name), shape("tspan", {class: "size", dx: label.name ? 5 : 0}, label.size));
    made.append(text);
    if (tensor !== undefined) made.dataset.tensor = tensor;
    return made;
  }

  // What a kernel of a deferred norm leaves to the next ones.
  threads() {
    const where = new Map(), note = (id, row, y) => {
      if (!where.has(id)) where.set(id, []);
      where.get(id).push([row, y]);
    };
    this.rows.forEach((row, index) => {
      for (const {id, y} of row.parts || []) note(id, index, y);
      for (const number of row.hidden || []) for (const {id} of this.main[number]) note(id, index, row.height / 2);
    });
    let lane = 0;
    for (const found of where.values()) {
      const rows = found.map(([row]) => row), first = Math.min(...rows), last = Math.max(...rows);
      if (first === last) continue;
      const ys = index => found.filter(([row]) => row === index).map(([, y]) => y);
      for (let index = first; index <= last; index++) {
        const row = this.rows[index], own = ys(index);
        (row.threads ||= []).push({lane: lane % 3, from: index === first ? own[0] : 0, to: index === last ? own.at(-1) : row.height, knots: row.parts ? own : []});
      }
      lane++;
    }
  }

  drawThread({lane, from, to, knots}, row) {
    const made = shape("g", {}), x = this.x.threads + 7 * lane, edge = this.x.fused + this.box;
    made.append(shape("line", {class: `thread t${lane}`, x1: x, x2: x, y1: from, y2: to}));
    for (const y of knots) {
      made.append(shape("line", {class: `thread t${lane}`, x1: edge - 6, x2: x, y1: y, y2: y}));
      made.append(shape("circle", {class: `knot t${lane}`, cx: edge - 9, cy: y, r: 4}));
    }
    return made;
  }

  // Elements for the rows between two heights, and for no others.
  paint(from, to) {
    const first = this.rowAt(from), wanted = new Set();
    for (let index = first; index < this.rows.length && this.rows[index].top <= to; index++) wanted.add(index);
    for (const [index, node] of this.shown) if (!wanted.has(index)) { node.remove(); this.shown.delete(index); }
    for (const index of wanted) if (!this.shown.has(index)) this.show(index);
  }

  show(index) {
    const row = this.rows[index], node = placed(element("div", row.inside ? "row inside" : "row"), {top: row.top, height: row.height});
    node.append(...row.draw(row));
    if (!row.parts && (row.threads || row.inside)) node.append(this.drawPassing(row));
    mark(node);
    const next = [...this.shown.keys()].filter(other => other > index).sort((a, b) => a - b)[0];
    this.holder.insertBefore(node, next === undefined ? null : this.shown.get(next));
    this.shown.set(index, node);
  }

  drawPassing(row) {
    const svg = shape("svg", {"aria-hidden": "true"}), {x} = this;
    for (const at of this.before ? [x.left, x.right] : [x.right]) svg.append(shape("line", {class: "spine", x1: at, x2: at, y1: 0, y2: row.height}));
    for (const thread of row.threads || []) svg.append(this.drawThread(thread, row));
    return svg;
  }

  rowAt(height) {
    let low = 0, high = this.rows.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.rows[middle].top <= height) low = middle; else high = middle - 1;
    }
    return low;
  }
}

// The edges of a box, in the order of its reads and writes.
function accessesOf(column, {reads, looked_up, writes}, first) {
  let y = first;
  const found = [];
  for (const [ids, write] of [[reads, false], [writes, true]]) {
    for (const id of ids) {
      const tensor = column.part.tensors[id], moved = write || !(id in looked_up) ? tensor.bytes : looked_up[id];
      const wide = Math.max(1.5, WIDEST * moved / column.most);
      const partial = /^partial/.test(tensor.name) || /tiles\d*\]$/.test(tensor.type);
      const size = bytes(moved), room = GUTTER - 20 - widthOf(size, "11px system-ui, sans-serif");
      y += 13 + wide / 2;
      found.push({
        tensor: id, write, y, wide, kind: tensor.weight ? "weight" : partial ? "partial" : "",
        label: {name: shortened(lastName(tensor.name) || tensor.type.replace(/\[.*/, ""), room, "11px system-ui, sans-serif"), size},
        title: `${write ? "writes" : "reads"} ${named(tensor)}\n${exact(tensor)}`,
      });
      y += wide / 2 + 3;
    }
  }
  return {found, end: y};
}

// A measured time is that of one kernel, or of several that begin with it.
function timeLines({roofline, measured}) {
  const predicted = `${time(roofline.us)} predicted`;
  if (!measured) return [predicted];
  const which = measured.kernels > 1 ? ` for ${measured.kernels} kernels from here` : "";
  return [`${time(measured.us)} measured${which}`, predicted];
}

function timeTitle({roofline, measured}) {
  const rows = measured ? `\nmeasured on ${measured.device} with ${measured.rows} rows` : "";
  const flops = roofline.flops ? `, ${scaled(roofline.flops, ["", "k", "M", "G", "T", "P"])}FLOP` : "";
  return `at least ${time(roofline.roof)} for ${bytes(roofline.bytes)}${flops}: bound by ${roofline.bound}${rows}`;
}

// A kernel: its height, how to build it, its edges, and where its operators are in it.
function kernelBox(column, same, number) {
  const [kernel] = same, {operators} = state.program, lines = [], parts = [];
  const ops = kernel.operators.map(({id}) => id);
  const modules = [...new Set(ops.map(id => operators[id].module).filter(Boolean))];
  let height = 6 + 20;
  const line = (make, size) => { lines.push(make); height += size; };
  const soft = (text, title) => line(() => { const made = element("div", "soft", text); made.title = title || text; return made; }, 17);
  if (kernel.size) soft(kernel.size);
  if (modules.length) soft(modules.map(name => name.replace(/^\D*\d+\./, "")).join(", "), modules.join(", "));
  if (kernel.roofline) {
    for (const text of timeLines(kernel)) soft(text, timeTitle(kernel));
    line(() => roofBar(kernel), 21);
  } else height += 4, lines.push(() => { const made = element("div"); made.style.height = "4px"; return made; });
  kernel.operators.forEach(({id, part, thread}, index) => {
    if (part !== "once per weight") parts.push({id, y: height + 10});
    line(() => chip(same.map(copy => copy.operators[index].id), part, thread), 23);
  });
  const red = [];
  const own = kernel.operators.filter(({id, thread}) => !thread && column.owner.get(id) === number);
  for (const found of distinctRefusals(own.flatMap(({id}) => operators[id].refusals))) {
    const {texts, size} = refusalText(found, column.box - 36);
    red.push({found, y: height + 3 + size / 2});
    line(() => refusal(texts), size + 8);
  }
  const {found, end} = accessesOf(column, kernel, 2);
  let lowest = end;
  const accesses = [...found];
  for (const {found: {bytes: cost, symbolic, message}, y} of red) {
    const wide = Math.max(1.5, WIDEST * Math.min(1, cost / column.most)), at = Math.max(y, lowest + 13 + wide / 2);
    lowest = at + wide / 2 + 3;
    accesses.push({y: at, wide, write: true, kind: "refused", label: {name: "refused", size: cost ? bytes(cost) : ""},
      title: `${message}${cost ? `\ncosts ${exact({bytes: cost, symbolic})}` : ""}`});
  }
  const build = () => {
    const made = element("article", "card");
    made.style.setProperty("--kind", `var(--${COLOURS[kernel.kind] || (kernel.kind.startsWith("gemm.") ? "gemm" : "call")})`);
    const head = button("h2", "", `${number + 1}  ${kernel.name}`, () => select(same.flatMap(copy => copy.operators.map(part => part.id)), true));
    head.title = kernel.name;
    made.append(head, ...lines.map(make => make()));
    return made;
  };
  return {height: Math.ceil(Math.max(height + 5, lowest + 4)), build, accesses, parts};
}

function roofBar({roofline, measured}) {
  const made = element("div", "roof"), bar = element("i"), share = element("i");
  const reached = Math.min(1, roofline.roof / (measured && measured.kernels === 1 ? measured.us : roofline.us));
  share.style.width = `${100 * reached}%`;
  bar.append(share);
  made.append(bar, element("span", "soft", `${percent(reached)} of ${roofline.bound === "bytes" ? "byte" : "FLOP"} roof`));
  made.title = timeTitle({roofline, measured});
  return made;
}

// An operator by itself. `same` has its numbers in all layers that it is shown for.
function apartBox(column, same) {
  const op = state.program.operators[same[0]], code = codeOf(op);
  const {found, end} = accessesOf(column, op, 2);
  const build = () => {
    const made = button("div", "card apart", "", () => select(same, true)), head = element("div");
    head.append(element("span", "name", op.name), element("span", "soft", op.roofline ? time(op.roofline.us) : ""));
    if (op.roofline) head.title = `${time(op.roofline.us)} predicted, ${percent(op.roofline.roof / op.roofline.us)} of the roof\n${timeTitle(op)}`;
    made.append(head);
    if (code) made.append(element("div", "code soft", code));
    made.dataset.ops = same.join(" ");
    made.title = placeOf(op);
    return made;
  };
  return {height: Math.ceil(Math.max(code ? 46 : 28, end + 3)), build, accesses: found};
}

function codeOf(op) {
  const lines = state.program.files[op.file];
  return (lines && lines[op.line - 1] || "").trim();
}

function placeOf(op) {
  const {tensors} = state.program.columns.find(column => column.operators.includes(op));
  return [op.results.map(id => named(tensors[id])).join(", "), op.module, op.line ? `${op.file}:${op.line}` : ""].filter(Boolean).join("\n");
}

function chip(same, part, thread) {
  const op = state.program.operators[same[0]], made = button("button", "chip", "", () => select(same, true));
  made.append(element("span", "name", op.name));
  if (part) made.append(element("span", "part", part));
  else made.append(element("span", "code", codeOf(op)));
  made.append(element("span", "stretch"));
  if (op.line) made.append(element("span", "place", `:${op.line}`));
  if (op.refusals.length && !thread) made.classList.add("refused");
  made.dataset.ops = same.join(" ");
  made.title = [part, placeOf(op)].filter(Boolean).join("\n");
  return made;
}

// Equal refusals of several operators are one, with the bytes of all. One may be of several operators of a kernel.
function distinctRefusals(refusals) {
  const found = new Map();
  for (const each of new Map(refusals.map(each => [each.number, each])).values()) {
    const key = `${each.message}|${each.condition}`, before = found.get(key);
    found.set(key, before ? {...before, bytes: before.bytes + each.bytes, symbolic: ""} : each);
  }
  return found.values();
}

function refusalText(found, width) {
  const parts = [["why", found.message], ["soft", found.condition && `failed condition: ${found.condition}`],
    ["soft", found.bytes ? `costs ${bytes(found.bytes)}${found.symbolic ? ` (${exact(found)})` : ""}` : ""],
    ["", found.suggestion && `remedy: ${found.suggestion}`]];
  const texts = parts.flatMap(([kind, text]) => text ? wrapped(text, width, "12px system-ui, sans-serif").map(line => [kind, line]) : []);
  return {texts, size: 15 * texts.length};
}

function refusal(texts) {
  const made = element("div", "refusal");
  made.append(...texts.map(([kind, text]) => element("div", kind, text)));
  return made;
}

function button(tag, className, text, action) {
  const made = element(tag, className, text);
  made.addEventListener("click", action);
  if (tag !== "button") {
    made.tabIndex = 0;
    made.setAttribute("role", "button");
    made.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); action(); } });
  }
  return made;
}

function drawKernels() {
  const many = state.columns.length > 1, room = byId("kernels").clientWidth || 800;
  const least = state.before ? 640 : 400, width = Math.max(least, many ? Math.floor(room / state.columns.length) - 1 : room);
  // On paper, columns are below each other.
  for (const column of state.columns) column.layout(state.printing ? PAPER : width, state.before);
  paint();
}

function paint() {
  const {scrollTop, clientHeight} = byId("kernels");
  const [from, to] = state.printing ? [0, Infinity] : [scrollTop - MARGIN, scrollTop + clientHeight + MARGIN];
  for (const column of state.columns) column.paint(from, to);
}

// ---------------------------------------------------------------- texts

const LEVELS = [
  ["Source", sourceLines],
  ["Block level", program => irLines(program.operators.map((op, index) => [op.ir, [index]]))],
  ["GEMM level", program => irLines(program.columns.flatMap(column => column.kernels).map(kernel => [kernel.ir, kernel.operators.filter(part => !part.thread).map(part => part.id)]))],
  ["Triton", program => program.columns.flatMap(column => spanLines(program, column, column.triton, "#"))],
  [data.functions[0] ? data.functions[0].machine.level : "PTX", machineLines],
];

const NONE = [];

function sourceLines(program) {
  const made = Object.entries(program.files).flatMap(([file, lines]) => [
    {text: file.replace(/^.*\/site-packages\//, ""), ops: NONE, file: true},
    ...lines.map((text, index) => ({text, number: index + 1, ops: program.lines.get(`${file}:${index + 1}`) || NONE})),
  ]);
  return made.length ? made : [{text: "The program has no source text.", ops: NONE}];
}

function irLines(items) {
  return items.flatMap(([ir, ops]) => ir.split("\n").map(text => ({text, ops})));
}

function spanLines(program, column, {text, spans}) {
  const lines = text.split("\n").map(each => ({text: each.replaceAll("\t", "    "), ops: NONE}));
  for (const [first, end, id] of spans) {
    const ops = besides(program, column, id);
    for (let index = first; index < end; index++) lines[index].ops = ops;
  }
  return lines;
}

function machineLines(program) {
  return program.columns.flatMap(column => {
    const {kernels, reason} = column.machine;
    const none = reason.split("\n").map(text => ({text, ops: NONE}));
    return kernels.length ? kernels.flatMap(kernel => {
      const linked = new Set(kernel.spans.flatMap(([, , id]) => besides(program, column, id)));
      const ops = column.kernels.filter(each => each.emitted === kernel.name).flatMap(each => each.operators.map(({id}) => id)).filter(id => !linked.has(id));
      return [{text: `kernel ${kernel.name}`, ops, file: true}, ...spanLines(program, column, kernel)];
    }) : none;
  });
}

function drawText() {
  const {program, level} = state, text = byId("text");
  program.texts ||= [];
  state.lines = program.texts[level] ||= LEVELS[level][1](program);
  const longest = state.lines.reduce((most, line) => Math.max(most, line.text.length), 0);
  const holder = element("div", "lines");
  holder.style.height = `${state.lines.length * LINE}px`;
  holder.style.width = `${longest + 10}ch`;
  text.replaceChildren(holder);
  text.scrollLeft = 0;
  document.querySelectorAll("[role=tab]").forEach((tab, index) => {
    tab.setAttribute("aria-selected", index === level);
    tab.tabIndex = index === level ? 0 : -1;
  });
  showLines();
  paintText();
}

// The first line of what is marked comes into sight; without marks, the first line of an operator.
function showLines() {
  const {lit, lines} = state, text = byId("text");
  const first = lines.findIndex(line => lit.size ? line.ops.some(op => lit.has(op)) : line.ops.length);
  if (first >= 0) text.scrollTop = first * LINE - text.clientHeight / 2;
}

function paintText() {
  const text = byId("text"), holder = text.firstChild, {lines, printing} = state;
  if (!holder) return;
  const first = printing ? 0 : Math.max(0, Math.floor((text.scrollTop - MARGIN) / LINE));
  const last = printing ? lines.length : Math.min(lines.length, Math.ceil((text.scrollTop + text.clientHeight + MARGIN) / LINE));
  const made = document.createDocumentFragment();
  for (let index = first; index < last; index++) {
    const {text: content, ops, number, file} = lines[index], line = element("div", file ? "file" : "");
    if (number !== undefined) line.append(element("span", "number", number));
    line.append(content);
    if (ops.length) line.dataset.ops = ops.length > 400 ? ops.slice(0, 400).join(" ") : ops.join(" ");
    if (ops.some(op => state.lit.has(op))) line.classList.add("lit");
    made.append(placed(line, {top: index * LINE}));
  }
  holder.replaceChildren(made);
}

// ---------------------------------------------------------------- selection

function mark(node) {
  for (const each of node.querySelectorAll("[data-ops]")) {
    each.classList.toggle("lit", state.lit.size > 0 && each.dataset.ops.split(" ").some(op => state.lit.has(Number(op))));
  }
}

function select(ops, scrollText, scrollKernels = !scrollText) {
  state.lit = new Set(ops);
  if (scrollText) showLines();
  if (scrollKernels) showKernel();
  for (const column of state.columns) for (const node of column.shown.values()) mark(node);
  paintText();
}

// The first kernel with what is marked comes into sight, unless one is.
function showKernel() {
  const place = byId("kernels"), {scrollTop, clientHeight} = place;
  const rows = state.columns.flatMap(column => column.rows).filter(row => row.ops && row.ops.some(op => state.lit.has(op)));
  if (!rows.length || rows.some(row => row.top >= scrollTop && row.top + row.height <= scrollTop + clientHeight - 34)) return;
  place.scrollTop = rows[0].top - 20;
  paint();
}

function search() {
  const wanted = byId("search").value.trim().toLowerCase(), {program} = state;
  const names = program.columns.flatMap(({operators, tensors}) => operators.map(op =>
    `${op.name} ${op.module} ${op.results.map(id => named(tensors[id])).join(" ")}`.toLowerCase()));
  const found = wanted ? [...names.keys()].filter(index => names[index].includes(wanted)) : [];
  select(found, true, true);
  byId("search").title = wanted ? `${found.length} operators` : "";
}

function step(by) {
  const heads = [...document.querySelectorAll("#kernels h2")], now = heads.indexOf(document.activeElement);
  const next = heads[now < 0 ? (by > 0 ? 0 : heads.length - 1) : now + by];
  if (next) { next.focus(); next.click(); }
}

// ---------------------------------------------------------------- the page

function draw() {
  const {program} = state;
  byId("title").textContent = programs.length > 1 ? "" : program.name;
  document.title = `${program.name}: CODA IR`;
  byId("summary").replaceChildren(...program.columns.map(summary));
  state.lit = new Set();
  state.columns = program.columns.map(part => new Column(part));
  byId("kernels").replaceChildren(...state.columns.map(column => column.place));
  byId("kernels").scrollTop = 0;
  byId("before").setAttribute("aria-pressed", state.before);
  drawKernels();
  drawText();
}

function summary(part) {
  const made = element("div"), predicted = items => items.reduce((total, {roofline}) => total + (roofline ? roofline.us : 0), 0);
  const fact = (label, from, to) => { made.append(`${label} `, element("b", "", from), " → ", element("b", "", to), "  "); };
  if (program_count() > 1) made.append(`${part.name}: `);
  fact("Kernels", part.counts.operators, part.counts.kernels);
  fact("· memory", bytes(part.bytes.apart.bytes), bytes(part.bytes.fused.bytes));
  fact("· predicted", time(predicted(part.operators)), time(predicted(part.kernels)));
  if (part.kernels.some(kernel => kernel.measured)) made.append(measuredText(part.kernels), " ");
  const sizes = Object.entries(part.sizes).map(([symbol, size]) => `${symbol} = ${size}`).join(", ");
  made.append(`on ${part.device}${sizes ? `, ${sizes}` : ""}`);
  made.title = `Memory traffic: ${exact(part.bytes.fused)}, without fusion ${exact(part.bytes.apart)}`;
  return made;
}

// The measured time of the kernels that have one, beside what is predicted for the same kernels.
function measuredText(kernels) {
  let count = 0, us = 0, predicted = 0;
  kernels.forEach(({measured}, index) => {
    if (!measured) return;
    count += measured.kernels;
    us += measured.us;
    for (const {roofline} of kernels.slice(index, index + measured.kernels)) predicted += roofline ? roofline.us : 0;
  });
  return `· measured ${time(us)} for ${count} of the kernels (${time(predicted)} predicted)`;
}

function program_count() { return state.program.columns.length; }

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
}

function isDark() {
  return (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
}

const actions = {
  "/": () => byId("search").focus(),
  b: () => byId("before").click(),
  d: () => byId("theme").click(),
  j: () => step(1),
  k: () => step(-1),
  Escape: () => { byId("search").value = ""; select([], false, false); },
};

LEVELS.forEach(([name], index) => {
  const tab = element("button", "", name);
  tab.setAttribute("role", "tab");
  tab.title = `${index + 1}`;
  tab.addEventListener("click", () => { state.level = index; drawText(); });
  document.querySelector("[role=tablist]").append(tab);
  actions[index + 1] = () => tab.click();
});
document.querySelector("[role=tablist]").addEventListener("keydown", event => {
  const by = {ArrowRight: 1, ArrowLeft: -1}[event.key];
  if (!by) return;
  const tabs = [...document.querySelectorAll("[role=tab]")], next = tabs[(state.level + by + tabs.length) % tabs.length];
  next.click();
  next.focus();
});
programs.forEach((program, index) => {
  const option = element("option", "", program.name);
  option.value = index;
  byId("function").append(option);
});
byId("function").classList.toggle("hidden", programs.length < 2);
byId("function").addEventListener("change", event => { state.program = programs[event.target.value]; state.before = program_count() === 1; draw(); });
byId("search").addEventListener("input", search);
byId("before").addEventListener("click", () => {
  state.before = !state.before;
  byId("before").setAttribute("aria-pressed", state.before);
  drawKernels();
});
byId("theme").addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
byId("kernels").addEventListener("scroll", paint);
byId("text").addEventListener("scroll", paintText);
byId("text").addEventListener("click", event => {
  const line = event.target.closest("[data-ops]");
  if (line) select(line.dataset.ops.split(" ").map(Number), false);
});
byId("kernels").addEventListener("pointerover", event => {
  const over = event.target.closest("[data-tensor]"), column = state.columns.find(each => each.place.contains(event.target));
  for (const other of document.querySelectorAll(".same")) other.classList.remove("same");
  if (over) for (const other of column.place.querySelectorAll(`[data-tensor="${over.dataset.tensor}"]`)) other.classList.add("same");
});
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || (event.target.tagName === "INPUT" && event.key !== "Escape")) return;
  const action = actions[event.key];
  if (action) { event.preventDefault(); action(); }
});
for (const [name, printing] of [["beforeprint", true], ["afterprint", false]]) {
  window.addEventListener(name, () => { state.printing = printing; drawKernels(); paintText(); });
}
window.addEventListener("resize", () => { drawKernels(); paintText(); });
setTheme(isDark() ? "dark" : "light");
state.before = program_count() === 1;
draw();
