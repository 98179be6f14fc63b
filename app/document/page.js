"use strict";
// The program of a page of figures: it shows the read-out under the pointer, marks the place in every figure, moves
// by keys, draws the picture of a slider's step, turns a lesson's pages, and changes the theme. It repeats
// Scene::pick and Scene::where of the program, on lengths in tenths of a point.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const tip = document.getElementById("tip");
  root.classList.add("live");

  // ---- what is said at places -------------------------------------------------------------------

  const ALPHABET =
    " !#$%'()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~";
  const digitOf = new Map([...ALPHABET].map((c, i) => [c, i]));

  // The texts of a stream that ValueTexts wrote, one for each place.
  function readTexts(stream, words, numbers) {
    const base = ALPHABET.length;
    const texts = [];
    let at = 0;
    const digit = () => digitOf.get(stream[at++]);
    const number = () => {
      const lead = digit();
      if (lead < 40) return lead;
      if (lead < 78) return 40 + (lead - 40) * base + digit();
      return 40 + 38 * base + (lead - 78) * base * base + digit() * base + digit();
    };
    while (at < stream.length) {
      const code = number();
      if (code === 0) {
        for (let more = number(); more > 0; --more) texts.push(texts[texts.length - 1]);
      } else {
        texts.push(words[code - 1].replace(/\u0001/g, () => numbers[number()]));
      }
    }
    return texts;
  }

  // ---- axes, and what lies where ----------------------------------------------------------------

  const FIELDS = ["token", "other", "step", "layer", "head", "query"];
  const VALUE = 4;  // an axis of numbers; before it: token, step, layer, head

  const REACH = 30;  // of a line, tenths of a point

  const nowhere = () => ({token: -1, other: -1, step: -1, layer: -1, head: -1, query: -1});
  const targetOf = (fields) => Object.fromEntries(FIELDS.map((field, i) => [field, fields[i]]));

  function fieldOf(axes, isY) {
    const meaning = (isY ? axes.y : axes.x).m;
    if (meaning === VALUE) return null;
    if (meaning === 0) return isY && axes.x.m === 0 ? "other" : "token";
    return ["", "step", "layer", "head"][meaning];
  }

  function shareOf(axis, value) {
    if (axis.log) return Math.log(value / axis.a) / Math.log(axis.b / axis.a);
    if (axis.knee !== undefined) {
      const first = (value - axis.a) / (axis.knee - axis.a);
      return first <= 1 ? axis.share * first
        : axis.share + (1 - axis.share) * (value - axis.knee) / (axis.b - axis.knee);
    }
    return (value - axis.a) / (axis.b - axis.a);
  }

  function valueAt(axis, share) {
    if (axis.log) return axis.a * Math.pow(axis.b / axis.a, share);
    if (axis.knee !== undefined) {
      return share <= axis.share ? axis.a + share / axis.share * (axis.knee - axis.a)
        : axis.knee + (share - axis.share) / (1 - axis.share) * (axis.b - axis.knee);
    }
    return axis.a + share * (axis.b - axis.a);
  }

  const low = (axis) => Math.floor(Math.min(axis.a, axis.b));
  const high = (axis) => Math.ceil(Math.max(axis.a, axis.b)) - 1;
  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
  const holds = ([x, y, w, h], px, py) => px >= x && px <= x + w && py >= y && py <= y + h;
  const isBar = (axes) => axes.x.m === VALUE && axes.y.m === VALUE && !axes.x.label && axes.p[2] < 120;

  // A picture's places, made when they are first asked for.
  class Scene {
    constructor(geometry, stream, words, numbers) {
      Object.assign(this, {axes: geometry.axes, tables: geometry.tables, points: [], lines: [], regions: []});
      this.said = null;
      this.readSaid = () => readTexts(stream, words, numbers);
      for (const set of geometry.sets) {
        for (let i = 0; i < set.points.length; i += 3) {
          const target = {...nowhere(), token: set.points[i + 2]};
          if (set.heads) {
            target.layer = set.heads[i / 3 * 2];
            target.head = set.heads[i / 3 * 2 + 1];
          }
          this.points.push({x: set.points[i], y: set.points[i + 1], r: set.r, target});
        }
      }
      for (const {f, p, points} of geometry.lines) this.lines.push({target: targetOf(f), plot: p, points});
      const r = geometry.regions;
      for (let i = 0; i < r.length; i += 10) {
        this.regions.push({rect: r.slice(i, i + 4), target: targetOf(r.slice(i + 4, i + 10))});
      }
      this.starts = [];  // of each table's texts
      let start = this.points.length + this.lines.length + this.regions.length;
      for (const [, nx, ex, , ny, ey] of this.tables) {
        this.starts.push(start);
        start += Math.ceil(nx / ex) * Math.ceil(ny / ey);
      }
    }

    textOf(index) {
      this.said = this.said || this.readSaid();
      return this.said[index] || "";
    }

    // A place: what it is, where it is, what is said there.
    ofPoint(i) {
      const point = this.points[i];
      return {kind: "point", i, x: point.x, y: point.y, target: point.target, text: this.textOf(i)};
    }

    // A line or a region at (x, y): what it leaves open, the cell of the axes there tells. The row of a head is a
    // place among the cells of its tokens or steps.
    withCell(place, x, y) {
      const cell = this.cellAt(x, y);
      if (!cell) return place;
      const target = {...place.target};
      for (const field of FIELDS) if (target[field] < 0) target[field] = cell.target[field];
      const isRow = target.token !== place.target.token || target.step !== place.target.step;
      return {...(isRow ? cell : place), target, text: place.text || cell.text, x, y};
    }

    ofLine(i, x, y) {
      const {target} = this.lines[i];
      return this.withCell({kind: "line", i, x, y, target, text: this.textOf(this.points.length + i)}, x, y);
    }

    ofRegion(i, at) {
      const [left, top, w, h] = this.regions[i].rect;
      const [x, y] = at || [left + w / 2, top + h / 2];
      return this.withCell({kind: "region", i, x, y, target: this.regions[i].target,
        text: this.textOf(this.points.length + this.lines.length + i)}, x, y);
    }

    // The cell of plot i that holds these data.
    ofCell(i, dx, dy) {
      const axes = this.axes[i];
      const [x0, nx, ex, y0, ny, ey] = this.tables[axes.t];
      const fx = fieldOf(axes, false), fy = fieldOf(axes, true);
      const target = nowhere(), kept = nowhere();
      const column = fx ? clamp(Math.floor(dx), low(axes.x), high(axes.x)) : 0;
      const row = fy ? clamp(Math.floor(dy), low(axes.y), high(axes.y)) : 0;
      const kx = clamp(Math.floor((column - x0) / ex), 0, Math.ceil(nx / ex) - 1);
      const ky = clamp(Math.floor((row - y0) / ey), 0, Math.ceil(ny / ey) - 1);
      if (fx) {
        target[fx] = column;
        kept[fx] = x0 + Math.min(kx * ex + Math.floor(ex / 2), nx - 1);
      }
      if (fy) {
        target[fy] = row;
        kept[fy] = y0 + Math.min(ky * ey + Math.floor(ey / 2), ny - 1);
      }
      const text = this.textOf(this.starts[axes.t] + ky * Math.ceil(nx / ex) + kx);
      const exact = FIELDS.every((field) => target[field] === kept[field]);
      const middle = (axis, cell, side, length) =>
        side + length * clamp((shareOf(axis, cell) + shareOf(axis, cell + 1)) / 2, 0, 1);
      return {kind: "cell", i, column, row, target, text, kept: exact ? null : kept,
        x: fx ? middle(axes.x, column, axes.p[0], axes.p[2]) : axes.p[0] + axes.p[2] / 2,
        y: fy ? middle(axes.y, row, axes.p[1], axes.p[3]) : axes.p[1] + axes.p[3] / 2};
    }

    // What keys walk through where it is not the cells of plots: points, else regions, else lines.
    get places() {
      if (this.points.length) return this.points.map((p, i) => this.ofPoint(i));
      const regions = this.regions.map((r, i) => this.ofRegion(i)).filter((one) => one.kind !== "cell");
      if (regions.length || this.regions.length) return regions;
      return this.lines.map(({points}, i) => {
        const middle = 2 * Math.floor(points.length / 4);
        return this.ofLine(i, points[middle], points[middle + 1]);
      });
    }

    pick(x, y) {
      let best = -1, nearest = Infinity;
      this.points.forEach((point, i) => {
        const distance = Math.hypot(point.x - x, point.y - y);
        if (distance <= point.r && distance < nearest) [best, nearest] = [i, distance];
      });
      if (best >= 0) return this.ofPoint(best);
      const line = this.lineAt(x, y);
      if (line >= 0) return this.ofLine(line, x, y);
      for (let i = this.regions.length - 1; i >= 0; --i) {
        if (holds(this.regions[i].rect, x, y)) return this.ofRegion(i, [x, y]);
      }
      return this.cellAt(x, y);
    }

    // The nearest line within reach; of lines that lie on each other the last, which is seen.
    lineAt(x, y) {
      let best = -1, nearest = REACH;
      for (let i = this.lines.length - 1; i >= 0; --i) {
        const {plot: [px, py, w, h], points} = this.lines[i];
        if (!holds([px - 10, py - 10, w + 20, h + 20], x, y)) continue;
        for (let k = 0; k + 3 < points.length; k += 2) {
          const dx = points[k + 2] - points[k], dy = points[k + 3] - points[k + 1];
          const length = dx * dx + dy * dy;
          const along = length > 0
            ? clamp(((x - points[k]) * dx + (y - points[k + 1]) * dy) / length, 0, 1) : 0;
          const distance = Math.hypot(points[k] + along * dx - x, points[k + 1] + along * dy - y);
          if (distance <= nearest - (best < 0 ? 0 : 1e-6)) [best, nearest] = [i, distance];
        }
      }
      return best;
    }

    cellAt(x, y) {
      for (let i = 0; i < this.axes.length; ++i) {
        const axes = this.axes[i];
        if (axes.t < 0 || !holds(axes.p, x, y)) continue;
        const place = this.ofCell(i, valueAt(axes.x, (x - axes.p[0]) / axes.p[2]),
          valueAt(axes.y, (y - axes.p[1]) / axes.p[3]));
        return {...place, x, y};
      }
      return null;
    }

    // The lines of a head.
    linesOf({layer, head}) {
      return this.lines.filter(({target}) => layer >= 0 && head >= 0 &&
        target.layer === layer && target.head === head);
    }

    // Rectangles that show a target; those of points are empty.
    where(wanted, heads) {
      const places = [];
      const span = (axis, cell) => {
        const a = clamp(shareOf(axis, cell), 0, 1), b = clamp(shareOf(axis, cell + 1), 0, 1);
        return Math.abs(a - b) > 1e-9 ? [Math.min(a, b), Math.max(a, b)] : null;
      };
      for (const axes of this.axes) {
        const [px, py, w, h] = axes.p;
        const fx = fieldOf(axes, false), fy = fieldOf(axes, true);
        const byX = fx && wanted[fx] >= 0, byY = fy && wanted[fy] >= 0;
        if (!byX && !byY) continue;
        const sx = byX ? span(axes.x, wanted[fx]) : [0, 1];
        const sy = byY ? span(axes.y, wanted[fy]) : [0, 1];
        if (sx && sy) places.push([px + sx[0] * w, py + sy[0] * h, (sx[1] - sx[0]) * w, (sy[1] - sy[0]) * h]);
      }
      for (const {rect, target} of this.regions) {
        const stated = FIELDS.filter((field) => wanted[field] >= 0 && target[field] >= 0);
        if (heads && (target.token >= 0 || target.step >= 0)) continue;  // not each token or step of a head
        if (stated.length && stated.every((field) => wanted[field] === target[field])) places.push(rect);
      }
      if (wanted.token >= 0) {
        for (const point of this.points) {
          if (point.target.token === wanted.token) places.push([point.x, point.y, 0, 0]);
        }
      }
      return places;
    }
  }

  // ---- words ------------------------------------------------------------------------------------

  const count = (n) => {
    const digits = String(Math.abs(n));
    const grouped = digits.length > 4 ? digits.replace(/\B(?=(\d{3})+$)/g, "\u2009") : digits;
    return (n < 0 ? "−" : "") + grouped;
  };

  function threeDigits(value) {
    if (!Number.isFinite(value)) return "–";
    if (Math.abs(value) >= 1000 && Math.abs(value) < 1e6) return count(Math.round(Number(value.toPrecision(3))));
    return value.toPrecision(3).replace("e+", "e").replace(/-/g, "−");
  }

  function tokenName(names, token) {
    const text = names && names.tokens[token];
    return count(token) + (text ? ` “${text.trim() || text}”` : "");
  }

  function segmentOf(names, token) {
    let name = "";
    for (let i = 0; names && i < names.segments.length && names.segments[i] <= token; i += 2) {
      name = names.segments[i + 1];
    }
    return name;
  }

  // The target's name: "Token 12 “word”, step 3".
  function nameOf(target, names, axes) {
    const parts = [];
    if (target.other >= 0) {
      if (target.token >= 0) parts.push("key " + tokenName(names, target.token));
      parts.push("query " + tokenName(names, target.other));
    } else if (target.token >= 0) {
      parts.push("token " + tokenName(names, target.token));
    }
    if (target.layer >= 0) parts.push("layer " + target.layer);
    if (target.query >= 0) {
      parts.push("query head " + target.query);
    } else if (target.head >= 0) {
      const queries = axes && [axes.x, axes.y].some((axis) => axis.m === 3 && /query/i.test(axis.label || ""));
      parts.push((queries ? "query head " : "head ") + target.head);
    }
    if (target.step >= 0) parts.push("step " + target.step);
    const name = parts.join(", ");
    return name.charAt(0).toUpperCase() + name.slice(1);
  }

  // More about the target: its segment, the tokens of its step.
  function detailOf(target, names) {
    const parts = [];
    if (!names) return "";
    if (target.token >= 0 && target.other < 0) parts.push(segmentOf(names, target.token));
    const first = names.steps[2 * target.step], end = names.steps[2 * target.step + 1];
    if (target.step >= 0 && end > first) {
      parts.push(`step ${target.step} reads ` + (end - first === 1 ? `token ${count(first)}`
        : `tokens ${count(first)}–${count(end - 1)}`));
    }
    return parts.filter(Boolean).join(" · ");
  }

  // The read-out of axes of numbers and of names at a point.
  function readoutOf(scene, x, y) {
    const axes = scene.axes.find((one) => !isBar(one) && holds(one.p, x, y));
    if (!axes) return "";
    const say = (axis, share) => {
      if (axis.m !== VALUE) return "";
      const value = valueAt(axis, share);
      const name = axis.names && axis.names[Math.floor(value)];
      return name !== undefined ? name : (axis.label ? axis.label + " " : "") + threeDigits(value);
    };
    return [say(axes.x, (x - axes.p[0]) / axes.p[2]), say(axes.y, (y - axes.p[1]) / axes.p[3])]
      .filter(Boolean).join(", ");
  }

  // ---- figures ----------------------------------------------------------------------------------

  const SVG = "http://www.w3.org/2000/svg";
  const THIN = 5;  // pixels: a thinner cell is marked by a line

  function element(name, attributes) {
    const one = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
    return one;
  }

  class Figure {
    constructor(node) {
      const at = Number(node.dataset.figure);
      this.node = node;
      this.section = Number(node.dataset.section);
      this.svg = node.querySelector("svg");
      this.items = this.svg.querySelector(".items");
      this.marks = this.svg.appendChild(element("g", {class: "marks"}));
      this.data = data.figures[at];
      this.names = data.names[this.data.names];
      this.scenes = [];
      this.frame = 0;
      this.place = null;  // where the keys are
      this.listen();
    }

    get scene() {
      const frame = this.data.frames[this.frame];
      this.scenes[this.frame] = this.scenes[this.frame] ||
        new Scene(this.data.geometry[frame.g], frame.v, this.data.words, this.data.numbers);
      return this.scenes[this.frame];
    }

    get visible() { return this.svg.clientWidth > 0; }

    // Pixels for a tenth of a point.
    get scale() { return this.svg.getBoundingClientRect().width / this.svg.viewBox.baseVal.width / 10; }

    show(frame) {
      if (this.data.frames.length < 2) return;
      this.frame = frame;
      const pool = this.data.pool;
      this.items.innerHTML = this.data.frames[frame].s.split(" ").map((range) => {
        const [from, to] = range.split("-").map(Number);
        return pool.slice(from, (to === undefined ? from : to) + 1).join("");
      }).join("");
      const caption = this.node.querySelector(".caption");
      if (caption) caption.textContent = this.data.frames[frame].c;
      const setting = this.node.querySelector(".of-step");
      if (setting) setting.textContent = data.sliders[this.section][frame];
    }

    // The place of the pointer, in tenths of a point.
    at(event) {
      const box = this.svg.getBoundingClientRect();
      return [(event.clientX - box.left) / this.scale, (event.clientY - box.top) / this.scale];
    }

    listen() {
      const point = (event) => {
        const [x, y] = this.at(event);
        const place = this.scene.pick(x, y);
        this.place = place || this.place;
        pointAt(this, place, x, y, event);
      };
      this.svg.addEventListener("pointermove", point);
      this.svg.addEventListener("pointerdown", point);
      this.svg.addEventListener("pointerleave", () => pointAt(null));
      this.svg.addEventListener("click", () => hold());
      this.svg.addEventListener("blur", () => pointAt(null));
      this.svg.addEventListener("keydown", (event) => this.key(event));
    }

    key(event) {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const moves = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
        Home: [-Infinity, 0], End: [Infinity, 0]};
      if (event.key === "Enter" || event.key === " ") {
        hold();
      } else if (moves[event.key]) {
        const [dx, dy] = moves[event.key].map((by) => by * (event.shiftKey ? 10 : 1) || 0);
        this.place = this.moved(dx, dy);
        if (this.place) pointAt(this, this.place, this.place.x, this.place.y);
      } else {
        return;
      }
      event.preventDefault();
      event.stopPropagation();
    }

    // The place next to the present one, so many to the right and down; the first where there is none.
    moved(dx, dy) {
      const scene = this.scene, now = this.place;
      const list = scene.places;
      if (list.length) {
        const own = now ? list.findIndex((p) => p.kind === now.kind && p.i === now.i) : -1;
        if (own < 0) return list[0];
        const down = dy !== 0;
        if (down && now.kind === "region") {  // the line above or below: the nearest there
          const beyond = list.filter((p) => (p.y - now.y) * dy > 1);
          if (!beyond.length) return now;
          const line = beyond.reduce((a, b) => (Math.abs(b.y - now.y) < Math.abs(a.y - now.y) - 1 ? b : a)).y;
          return beyond.filter((p) => Math.abs(p.y - line) <= 1)
            .reduce((a, b) => (Math.abs(b.x - now.x) < Math.abs(a.x - now.x) ? b : a));
        }
        // Points in the order of their places; regions in their own, which is that of the text.
        const order = list.map((p, i) => i);
        if (now.kind === "point") order.sort((a, b) => (down ? list[a].y - list[b].y : list[a].x - list[b].x) || a - b);
        const at = order.indexOf(own);
        return list[order[clamp(at + dx + dy, 0, order.length - 1)]];
      }
      const plots = scene.axes.map((axes, i) => i).filter((i) => scene.axes[i].t >= 0);
      if (!plots.length) return null;
      if (!now || now.kind !== "cell") {
        const axes = scene.axes[plots[0]];
        return scene.ofCell(plots[0], axes.x.a, axes.y.a);
      }
      const step = (axis, cell, by) => {
        if (axis.m === VALUE || by === 0) return cell;
        return clamp(cell + (axis.b > axis.a ? by : -by), low(axis), high(axis));
      };
      const axes = scene.axes[now.i];
      const column = step(axes.x, now.column, dx), row = step(axes.y, now.row, dy);
      // Beyond the side of a plot lies its neighbour.
      if (column === now.column && row === now.row && Number.isFinite(dx)) {
        const next = plots[plots.indexOf(now.i) + Math.sign(dx + dy)];
        if (next !== undefined) {
          const other = scene.axes[next];
          const from = dx + dy > 0;
          return scene.ofCell(next, dx ? (from ? low(other.x) : high(other.x)) : column,
            dy ? (from ? low(other.y) : high(other.y)) : row);
        }
      }
      return scene.ofCell(now.i, column, row);
    }

    mark([x, y, w, h], name) {
      const scale = this.scale;
      const pixels = (length) => length / scale / 10;
      [x, y, w, h] = [x / 10, y / 10, w / 10, h / 10];
      const thinX = w < pixels(THIN), thinY = h < pixels(THIN);
      let one;
      if (w * 10 * scale < 0.5 && h * 10 * scale < 0.5) {
        one = element("circle", {cx: x, cy: y, r: pixels(5)});
      } else if (thinX !== thinY) {
        one = thinX ? element("line", {x1: x + w / 2, x2: x + w / 2, y1: y, y2: y + h})
          : element("line", {x1: x, x2: x + w, y1: y + h / 2, y2: y + h / 2});
      } else {
        one = element("rect", {x, y, width: w, height: h});
      }
      one.setAttribute("class", name);
      this.marks.append(one);
    }

    markLine({plot: [x, y, w, h], points}, name) {
      // Cut to the plot, like the line itself.
      const frame = element("svg", {x: x / 10, y: y / 10, width: w / 10, height: h / 10,
        viewBox: `${x / 10} ${y / 10} ${w / 10} ${h / 10}`, class: name});
      const places = [];
      for (let i = 0; i < points.length; i += 2) places.push(`${points[i] / 10},${points[i + 1] / 10}`);
      frame.append(element("polyline", {points: places.join(" ")}));
      this.marks.append(frame);
    }

    markTarget(target, name) {
      const only = (fields) => ({...nowhere(), ...Object.fromEntries(fields.map((f) => [f, target[f]]))});
      const ask = (fields, weak, heads) => {
        for (const rect of this.scene.where(only(fields), heads)) this.mark(rect, name + (weak ? " weak" : ""));
      };
      if (target.token >= 0) ask(["token"]);
      if (target.other >= 0) ask(["other"], true);
      if (target.step >= 0) ask(["step"], true);
      if (target.layer >= 0 || target.head >= 0) ask(["layer", "head"], false, true);
      for (const line of this.scene.linesOf(target)) this.markLine(line, name);
    }

    // Two triangles at the sides of a plot: the slider's step.
    markStep(step) {
      for (const {p: [x, y, w], p, y: axis} of this.scene.axes) {
        if (axis.m !== 1) continue;
        const share = shareOf(axis, step + 0.5);
        if (share < 0 || share > 1) continue;
        const at = (y + share * p[3]) / 10, side = 6 / this.scale / 10;
        for (const [edge, d] of [[x / 10, side], [(x + w) / 10, -side]]) {
          this.marks.append(element("path", {class: "step",
            d: `M${edge + d} ${at}L${edge} ${at - side * 0.7}L${edge} ${at + side * 0.7}Z`}));
        }
      }
    }

    crossHair(x, y) {
      const axes = this.scene.axes.find((one) => !isBar(one) && holds(one.p, x, y));
      if (!axes) return;
      const [px, py, , h] = axes.p.map((side) => side / 10);
      this.marks.append(element("path", {class: "cross",
        d: `M${x / 10} ${y / 10}V${py + h}M${px} ${y / 10}H${x / 10}`}));
    }
  }

  const figures = [...document.querySelectorAll("figure[data-figure]")].map((node) => new Figure(node));
  const steps = data.sliders.map(() => null);  // of each section's slider

  // ---- pointing ---------------------------------------------------------------------------------

  let pointed = null;  // {figure, place, x, y}
  let held = null;     // the target that stays marked

  function pointAt(figure, place, x, y, event) {
    pointed = figure ? {figure, place, x, y} : null;
    redraw();
    if (!figure) {
      tip.hidden = true;
      return;
    }
    const lines = [];
    const scene = figure.scene;
    if (place) {
      const axes = place.kind === "cell" ? scene.axes[place.i] : null;
      lines.push(["name", nameOf(place.target, figure.names, axes)]);
      lines.push(["detail", detailOf(place.target, figure.names)]);
      const near = place.kept && place.text ? ` (at ${nameOf(place.kept, null, axes).toLowerCase()})` : "";
      lines.push(["value", place.text + near]);
    }
    lines.push(["detail", readoutOf(scene, x, y)]);
    const said = lines.filter(([, text]) => text);
    tip.hidden = said.length === 0;
    tip.replaceChildren(...said.map(([name, text]) => {
      const line = document.createElement("div");
      line.className = name;
      line.textContent = text;
      return line;
    }));
    const box = figure.svg.getBoundingClientRect();
    const scale = figure.scale;
    const px = event ? event.clientX : box.left + x * scale;
    const py = event ? event.clientY : box.top + y * scale;
    const gap = 14;
    const left = px + gap + tip.offsetWidth > root.clientWidth ? px - gap - tip.offsetWidth : px + gap;
    const above = py - gap - tip.offsetHeight;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = (above < 4 ? py + gap : above) + "px";
  }

  function hold() {
    const place = pointed && pointed.place;
    const same = place && held && FIELDS.every((field) => held[field] === place.target[field]);
    held = place && !same ? place.target : null;
    redraw();
  }

  function redraw() {
    for (const figure of figures) {
      figure.marks.replaceChildren();
      if (!figure.visible) continue;
      if (steps[figure.section] !== null) figure.markStep(steps[figure.section]);
      if (held) figure.markTarget(held, "mark held");
      if (!pointed) continue;
      if (pointed.place) figure.markTarget(pointed.place.target, "mark");
      if (pointed.figure === figure) figure.crossHair(pointed.x, pointed.y);
    }
  }

  // ---- sliders ----------------------------------------------------------------------------------

  const sections = [...document.querySelectorAll("main > section")];
  sections.forEach((section, s) => {
    const input = section.querySelector(".slider input");
    if (!input) return;
    const show = () => {
      const frame = Number(input.value);
      steps[s] = data.sliders[s][frame];
      section.querySelector(".slider output").textContent = steps[s];
      for (const figure of figures) if (figure.section === s) figure.show(frame);
      redraw();
    };
    input.addEventListener("input", show);
    const at = Number(input.getAttribute("value"));
    steps[s] = data.sliders[s][at];
    for (const figure of figures) {
      if (figure.section === s && figure.data.frames.length > 1) figure.frame = at;
    }
  });

  // ---- a lesson's pages -------------------------------------------------------------------------

  const nav = document.querySelector("nav");
  let page = 0;

  function turn(to) {
    page = clamp(to, 0, sections.length - 1);
    sections.forEach((section, s) => section.classList.toggle("on", s === page));
    pointAt(null);
    nav.querySelector("output").textContent = `${page + 1} of ${sections.length}`;
    nav.querySelector("progress").value = page + 1;
    nav.querySelector(".back").disabled = page === 0;
    nav.querySelector(".next").disabled = page === sections.length - 1;
    redraw();
  }

  function goTo(to) {
    const hash = "#page-" + (clamp(to, 0, sections.length - 1) + 1);
    if (hash !== location.hash) location.hash = hash;  // the browser's own back button works
    turn(to);
    window.scrollTo(0, 0);
  }

  const pageOfHash = () => Number((/^#page-(\d+)$/.exec(location.hash) || [0, 1])[1]) - 1;

  const inTurn = sections.length > 1 && root.dataset.sections !== "all";
  if (inTurn) {
    root.classList.add("paged");
    const button = (name, label, by) => {
      const one = document.createElement("button");
      one.type = "button";
      one.className = name;
      one.textContent = label;
      one.addEventListener("click", () => goTo(page + by));
      return one;
    };
    const progress = document.createElement("progress");
    progress.max = sections.length;
    progress.setAttribute("aria-label", "Progress");
    nav.append(button("back", "Back", -1), progress, document.createElement("output"), button("next", "Next", 1));
    window.addEventListener("hashchange", () => turn(pageOfHash()));
    turn(pageOfHash());
  } else {
    nav.hidden = true;
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      held = null;
      pointAt(null);
    } else if (event.target === document.body && inTurn && !event.ctrlKey && !event.altKey && !event.metaKey) {
      if (event.key === "ArrowRight") goTo(page + 1);
      if (event.key === "ArrowLeft") goTo(page - 1);
    }
  });

  // ---- theme ------------------------------------------------------------------------------------

  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const nameTheme = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.setAttribute("aria-label", "Change theme");
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  system.addEventListener("change", nameTheme);
  nameTheme();
  window.addEventListener("resize", redraw);
  redraw();
})();
