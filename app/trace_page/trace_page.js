"use strict";
// The program of the page of a whole trace. EmbeddedSource knows the numbers; everything else asks it, so that
// another source (a server) can stand in its place. All pictures are drawn from numbers; what is pointed at and
// what is chosen is one object, `state`, which the address holds.
(() => {
  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);
  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
  const make = (name, text, className) => {
    const one = document.createElement(name);
    if (text !== undefined) one.textContent = text;
    if (className) one.className = className;
    return one;
  };

  // ---- the numbers ------------------------------------------------------------------------------

  const FATES = ["evicted", "kept by its score", "kept by the second stage of the selection", "kept, protected as recent",
    "kept, protected as one of the first tokens", "kept, in the window that the score protects", "merged into other entries",
    "kept, protected by keep, protect_prompt or boundaries", "evicted, named by drop",
    "left the model's sliding window: no later query sees it"];
  const MERGED = 6, BEYOND = 9, READS = 16;

  // The numbers of a page that holds them itself. A place is {policy, budget, layer, head, step}, all as numbers from
  // 0 on but for layer and head, which are the model's; page_data.h describes the arrays.
  class EmbeddedSource {
    constructor() {
      this.about = JSON.parse($("about").textContent);
      this.arrays = {};
      this.loading = {};
      const {tokens, heads, budgets, steps} = this.about;
      Object.assign(this, {T: tokens.length, H: heads.length, B: budgets.length, S: steps.length});
      this.ends = steps.map((step) => step[1]);
      this.entered = new Uint32Array(this.T);
      for (let t = 0, step = 0; t < this.T; ++t) {
        while (this.ends[step] <= t) ++step;
        this.entered[t] = step;
      }
      this.stays = this.about.wide ? 0xFFFF : 0xFF;
    }

    names() {
      return [...document.querySelectorAll("script[type='application/octet-stream']")].map((one) => one.id.slice(5));
    }

    // Reads an array of the page, once.
    load(name) {
      const node = $("data-" + name);
      if (!node) return Promise.resolve();
      this.loading[name] = this.loading[name] || (async () => {
        const text = atob(node.textContent);
        const bytes = new Uint8Array(text.length);
        for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
        const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
        const buffer = await new Response(stream).arrayBuffer();
        const of16 = name.startsWith("kept-") && this.about.wide;
        this.arrays[name] = name === "measures" ? new Float32Array(buffer)
          : of16 ? new Uint16Array(buffer) : new Uint8Array(buffer);
        node.textContent = "";
      })();
      return this.loading[name];
    }

    headIndex(layer, head) {
      return this.about.heads.findIndex((one) => one[0] === layer && one[1] === head);
    }

    entries(policy, budget) { return this.about.entries[policy][budget]; }  // 0: refused

    // A function that says at which step a token left a head; Infinity: it stays.
    leaving({policy, budget, index}) {
      const {T, B, stays} = this, codes = this.arrays["kept-" + policy], from = index * T * B + budget;
      return (token) => { const step = codes[from + token * B]; return step === stays ? Infinity : step; };
    }

    leftAs({policy, budget, index}, token) {
      const fates = this.arrays["left-" + policy];
      return fates ? fates[(index * this.T + token) * this.B + budget] : 0;
    }

    kept(place) {
      const left = this.leaving(place), tokens = [];
      for (let t = 0, end = this.ends[place.step]; t < end; ++t) if (left(t) > place.step) tokens.push(t);
      return tokens;
    }

    keptCount(place, tokens) {
      const left = this.leaving(place), end = this.ends[place.step];
      let count = 0;
      if (tokens) for (const t of tokens) count += t < end && left(t) > place.step;
      else for (let t = 0; t < end; ++t) count += left(t) > place.step;
      return count;
    }

    measure(number, policy, budget, index) {
      const {H, B} = this, P = this.about.policies.length;
      return this.arrays.measures[((number * P + policy) * B + budget) * H + index];
    }

    // Score, rank, fate and threshold of a token at its last step in the head; null where the page has none.
    score({policy, budget, index}, token) {
      const bytes = this.arrays[`score-${policy}-${budget}`];
      if (!bytes) return null;
      const {H, S, T} = this, cells = H * T, floats = new Float32Array(bytes.buffer, 0, H * (3 + S));
      const from = 4 * floats.length + index * T + token;
      const [low, high, sign] = floats.subarray(3 * index, 3 * index + 3);
      const code = bytes[from], value = low + (high - low) * (code - 1) / 254;
      const step = Math.min(this.leaving({policy, budget, index})(token), S - 1);
      return {
        score: code === 0 ? NaN : sign === 0 ? value : sign * Math.exp(value),
        rank: bytes[from + cells] + 256 * bytes[from + 2 * cells],
        fate: bytes[from + 3 * cells], step,
        threshold: floats[3 * H + index * S + step],
      };
    }

    // The places of all keys, 0 to 1, and what their components explain.
    keys(index) {
      const {H, T} = this, bytes = this.arrays.keys, floats = new Float32Array(bytes.buffer, 6 * 4 * index, 6);
      const from = 24 * H + 2 * T * index;
      return {x: bytes.subarray(from, from + T), y: bytes.subarray(from + T, from + 2 * T),
        explained: [floats[2], floats[5]]};
    }

    // What a row of attention reads: [{token, share}], the most first.
    reads(index, row) {
      const {about, H, T} = this, R = about.rows.length, bytes = this.arrays.attention, wide = T > 0xFFFF;
      const cells = H * R * READS, from = (index * R + row) * READS;
      const tokens = wide ? new Uint32Array(bytes.buffer, 0, cells) : new Uint16Array(bytes.buffer, 0, cells);
      const shares = bytes.subarray(cells * (wide ? 4 : 2)), list = [];
      for (let i = 0; i < READS && i <= about.rows[row]; ++i) {
        const share = shares[from + i] / 255;
        if (share > 0) list.push({token: tokens[from + i], share: share * share});
      }
      return list;
    }
  }

  // ---- words ------------------------------------------------------------------------------------

  const real = (text) => text.replace("e+", "e").replace(/-/g, "−");
  const digits = (value) => !Number.isFinite(value) ? "–" : real(Math.abs(value) >= 1000 && Math.abs(value) < 1e6
    ? String(Math.round(value)) : value.toPrecision(3));
  const percent = (share) => (100 * share).toPrecision(2).replace(/e\+(\d+)/, (_, n) => "0".repeat(n - 1)) + " %";
  const problem = (text) => $("problems").append(make("p", text, "problem"));

  if (typeof DecompressionStream === "undefined") {
    problem("This browser is too old for this page: it lacks DecompressionStream. Chrome and Edge from 80, Firefox from 113 " +
      "and Safari from 16.4 have it.");
    return;
  }

  let source;
  try {
    source = new EmbeddedSource();
  } catch (error) {
    problem("This page is damaged: " + error.message + ". Write it again with kvloupe page.");
    return;
  }
  const about = source.about, {T, H, S} = source;
  const tokenName = (t) => `${t} “${about.tokens[t]}”`;
  const headName = (index) => `layer ${about.heads[index][0]}, head ${about.heads[index][1]}`;
  const segmentOf = (token) => {
    let name = "";
    for (const [first, text] of about.segments) if (first <= token) name = text;
    return name;
  };

  // ---- what is shown ----------------------------------------------------------------------------

  const middle = Math.floor((source.B - 1) / 2);
  // index: of the head; token: held, -1 none; row: an attention row's place, -1 follows the token.
  const state = {a: 0, b: -1, budget: middle, index: 0, step: S - 1, token: -1, row: -1, measure: "kept", find: "",
    follow: "", theme: ""};
  let pointed = {token: -1, step: -1, index: -1};
  let found = [], followed = [];
  const place = (policy, index = state.index) => ({policy, budget: state.budget, index, step: state.step});
  const isThere = (policy) => policy >= 0 && source.entries(policy, state.budget) > 0;
  const shownToken = () => (pointed.token >= 0 ? pointed.token : state.token);

  // "120-131,140", or a segment's name.
  function tokensOf(text) {
    const list = new Set();
    const names = about.segments.map((one) => one[1]);
    if (names.includes(text)) {
      about.segments.forEach(([first, name], i) => {
        const end = i + 1 < about.segments.length ? about.segments[i + 1][0] : T;
        if (name === text) for (let t = first; t < end; ++t) list.add(t);
      });
      return [...list];
    }
    for (const part of text.split(",")) {
      const range = /^\s*(\d+)\s*(?:-\s*(\d+)\s*)?$/.exec(part);
      if (!range) return text.trim() ? null : [];
      const last = range[2] === undefined ? Number(range[1]) : Number(range[2]);
      for (let t = Number(range[1]); t <= Math.min(last, T - 1); ++t) list.add(t);
    }
    return [...list];
  }

  // Tokens that the searched words lie in.
  const starts = new Uint32Array(T + 1);
  about.tokens.forEach((text, t) => { starts[t + 1] = starts[t] + text.length; });
  const whole = about.tokens.join("").toLowerCase();
  function search(words) {
    const places = [], wanted = words.toLowerCase();
    for (let at = wanted ? whole.indexOf(wanted) : -1; at >= 0; at = whole.indexOf(wanted, at + 1)) {
      let low = 0, high = T;
      while (low + 1 < high) {
        const half = (low + high) >> 1;
        if (starts[half] <= at) low = half; else high = half;
      }
      let last = low;
      while (last + 1 < T && starts[last + 1] < at + wanted.length) ++last;
      places.push([low, last]);
    }
    return places;
  }

  // ---- the address ------------------------------------------------------------------------------

  function toFragment() {
    const words = new URLSearchParams();
    const [layer, head] = about.heads[state.index];
    const add = (name, value, usual) => { if (value !== usual) words.set(name, value); };
    words.set("a", about.policies[state.a]);
    if (state.b >= 0) words.set("b", about.policies[state.b]);
    words.set("budget", about.budgets[state.budget]);
    words.set("layer", layer);
    words.set("head", head);
    words.set("step", state.step);
    add("token", state.token, -1);
    if (state.row >= 0) words.set("query", about.rows[state.row]);
    add("measure", state.measure, "kept");
    add("find", state.find, "");
    add("follow", state.follow, "");
    add("theme", state.theme, "");
    return "#" + words;
  }

  function fromFragment() {
    const words = new URLSearchParams(location.hash.slice(1));
    const number = (name, least, most, usual) => {
      const value = words.has(name) ? Number(words.get(name)) : NaN;
      return Number.isInteger(value) ? clamp(value, least, most) : usual;
    };
    const inList = (list, name, usual) => {
      const at = list.indexOf(words.get(name));
      return at >= 0 ? at : usual;
    };
    state.a = inList(about.policies, "a", state.a);
    state.b = inList(about.policies, "b", words.has("a") ? -1 : state.b);
    state.budget = inList(about.budgets, "budget", state.budget);
    const [layer, head] = about.heads[state.index];
    const index = source.headIndex(number("layer", 0, 1e6, layer), number("head", 0, 1e6, head));
    if (index >= 0) state.index = index;
    state.step = number("step", 0, S - 1, state.step);
    state.token = number("token", -1, T - 1, -1);
    state.row = about.rows.indexOf(number("query", 0, T - 1, -1));
    state.measure = words.get("measure") || "kept";
    state.find = words.get("find") || "";
    state.follow = words.get("follow") || "";
    if (words.has("theme")) state.theme = words.get("theme");
  }

  let written = "";
  function writeFragment() {
    const fragment = toFragment();
    if (fragment === written) return;
    written = fragment;
    try {
      history.replaceState(null, "", fragment);
    } catch (error) {
      // A frame without an address of its own: the page works without one.
    }
  }

  // ---- text -------------------------------------------------------------------------------------

  const spans = [];
  function buildText() {
    let line = make("div");
    line.dir = "auto";
    about.tokens.forEach((text, t) => {
      const span = make("span", text);
      span.dataset.t = t;
      spans.push(span);
      line.append(span);
      if (text.includes("↵") || t === T - 1) {
        $("text").append(line);
        line = make("div");
        line.dir = "auto";
      }
    });
  }

  // The fate of every token in the chosen head: a word, which is also the class of its text.
  function fatesOf(policy, other) {
    const end = source.ends[state.step], list = new Array(T), at = place(policy);
    const a = source.leaving(at), b = other >= 0 ? source.leaving(place(other)) : null;
    for (let t = 0; t < T; ++t) {
      const inA = a(t) > state.step;
      if (t >= end) list[t] = "ahead";
      else if (b) list[t] = inA ? (b(t) > state.step ? "both" : "only-a") : b(t) > state.step ? "only-b" : "gone";
      else if (inA) list[t] = "kept";
      else {
        const fate = source.leftAs(at, t);
        list[t] = fate === MERGED ? "merged" : fate === BEYOND ? "window" : "gone";
      }
    }
    return list;
  }

  const KEY = {kept: "kept", gone: "evicted", merged: "merged", window: "left the model's window", both: "kept by both",
    "only-a": "by A only", "only-b": "by B only", ahead: "not read yet"};
  let fates = [];
  function drawText() {
    const isFound = new Set();
    for (const [first, last] of found) for (let t = first; t <= last; ++t) isFound.add(t);
    const isFollowed = new Set(followed);
    const seen = new Set();
    for (let t = 0; t < T; ++t) {
      seen.add(fates[t]);
      const name = fates[t] + (isFound.has(t) ? " found" : "") + (isFollowed.has(t) ? " followed" : "") +
        (t === state.token ? " held" : "") + (t === pointed.token ? " pointed" : "");
      if (spans[t].className !== name) spans[t].className = name;
    }
    $("key").replaceChildren(...Object.keys(KEY).filter((name) => seen.has(name)).map((name) => make("span", KEY[name], name)));
  }

  // ---- pictures ---------------------------------------------------------------------------------

  let colour = {};
  function readColours() {
    const style = getComputedStyle(root);
    for (const name of ["paper", "ink", "faint", "line", "ground", "kept", "evicted", "merged", "mark", "both-ground"]) {
      colour[name] = style.getPropertyValue("--" + name).trim();
    }
  }
  const rgb = (hex) => hex.length === 4 ? [1, 2, 3].map((i) => parseInt(hex[i] + hex[i], 16))
    : [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

  const VIRIDIS = ["440154", "482878", "3e4989", "31688e", "26828e", "1f9e89", "35b779", "6ece58", "b5de2b", "fde725"];
  function viridis(share) {
    const at = clamp(share, 0, 1) * (VIRIDIS.length - 1), low = Math.min(Math.floor(at), VIRIDIS.length - 2);
    const a = rgb("#" + VIRIDIS[low]), b = rgb("#" + VIRIDIS[low + 1]);
    return `rgb(${a.map((value, i) => Math.round(value + (b[i] - value) * (at - low)))})`;
  }

  // A canvas in pixels of the screen, and its pointer and keys. pick(x, y) says what lies there; move(dx, dy) goes on.
  class Picture {
    constructor(id, draw, pick, move) {
      this.node = $(id);
      Object.assign(this, {paint: draw, pick});
      const point = (event) => {
        const box = this.node.getBoundingClientRect();
        pointAt(this.pick(event.clientX - box.left, event.clientY - box.top, box.width, box.height));
      };
      this.node.addEventListener("pointermove", point);
      this.node.addEventListener("pointerdown", point);
      this.node.addEventListener("pointerleave", () => pointAt({}));
      this.node.addEventListener("click", hold);
      onArrows(this.node, move);
    }

    draw(height) {
      const ratio = window.devicePixelRatio || 1, width = this.node.clientWidth;
      if (!width) return;
      this.node.style.height = height + "px";
      if (this.node.width !== Math.round(width * ratio)) this.node.width = Math.round(width * ratio);
      if (this.node.height !== Math.round(height * ratio)) this.node.height = Math.round(height * ratio);
      const g = this.node.getContext("2d");
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      g.clearRect(0, 0, width, height);
      g.font = "12px Inter, system-ui, sans-serif";
      this.paint(g, width, height);
    }
  }

  function onArrows(node, move) {
    node.addEventListener("keydown", (event) => {
      const moves = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-T, 0], End: [T, 0]};
      if (event.ctrlKey || event.altKey || event.metaKey || !(moves[event.key] || event.key === "Enter")) return;
      event.preventDefault();
      if (event.key === "Enter") return hold();
      const [dx, dy] = moves[event.key].map((by) => by * (event.shiftKey ? 10 : 1));
      move(dx, dy);
      say();
    });
  }

  function moveToken(by) {
    pointed = {token: -1, step: -1, index: -1};
    state.token = clamp(Math.max(state.token, -1) + by, 0, T - 1);
    spans[state.token].scrollIntoView({block: "nearest"});
    redraw();
  }
  function moveStep(by) {
    state.step = clamp(state.step + by, 0, S - 1);
    redraw();
  }

  // Tokens along x, steps down: blue while a token is in the head, a mark where it leaves.
  const BAND = 8;
  const strips = {};
  function stripImage(policy) {
    const key = [policy, state.budget, state.index, root.dataset.theme].join();
    if (strips[policy] && strips[policy].key === key) return strips[policy].canvas;
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [T, S];
    const g = canvas.getContext("2d"), image = g.createImageData(T, S), at = place(policy), left = source.leaving(at);
    const kept = rgb(colour.kept), gone = rgb(colour.evicted), merged = rgb(colour.merged), window = rgb(colour["both-ground"]);
    for (let t = 0; t < T; ++t) {
      const until = left(t), fate = source.leftAs(at, t);
      const leaves = fate === MERGED ? merged : fate === BEYOND ? window : gone;
      for (let s = source.entered[t]; s < S && s <= until; ++s) {
        const c = s === until ? leaves : kept, i = 4 * (s * T + t);
        [image.data[i], image.data[i + 1], image.data[i + 2], image.data[i + 3]] = [c[0], c[1], c[2], 255];
      }
    }
    g.putImageData(image, 0, 0);
    strips[policy] = {key, canvas};
    return canvas;
  }

  const stripHeight = () => BAND + clamp(S * 9, 60, 320);
  function drawStrip(policy) {
    return (g, width, height) => {
      if (!isThere(policy())) return;
      about.segments.forEach(([first], i) => {
        const end = i + 1 < about.segments.length ? about.segments[i + 1][0] : T;
        g.fillStyle = i % 2 ? colour["both-ground"] : colour.line;
        g.fillRect(first / T * width, 0, Math.max(1, (end - first) / T * width - 1), BAND - 3);
      });
      g.fillStyle = colour.ground;
      g.fillRect(0, BAND, width, height - BAND);
      // First along the tokens, smoothly, then along the steps, which keep their edges.
      const wide = document.createElement("canvas");
      [wide.width, wide.height] = [Math.max(1, g.canvas.width), S];
      const h = wide.getContext("2d");
      h.imageSmoothingEnabled = wide.width < T;
      h.drawImage(stripImage(policy()), 0, 0, wide.width, S);
      g.imageSmoothingEnabled = false;
      g.drawImage(wide, 0, BAND, width, height - BAND);
      const row = (height - BAND) / S, token = shownToken(), cell = Math.max(2, width / T);
      g.strokeStyle = colour.ink;
      g.lineWidth = 1;
      g.strokeRect(0.5, BAND + state.step * row, width - 1, row);
      g.fillStyle = colour.mark;
      const mark = (t) => g.fillRect(t / T * width, 0, cell, height);
      if (token >= 0) mark(token);
      for (const t of followed) g.fillRect(t / T * width, BAND - 3, cell, 3);
    };
  }
  const pickStrip = (x, y, width, height) => ({token: clamp(Math.floor(x / width * T), 0, T - 1),
    step: clamp(Math.floor((y - BAND) / (height - BAND) * S), 0, S - 1)});

  // ---- layers and heads -------------------------------------------------------------------------

  const layerList = [...new Set(about.heads.map((one) => one[0]))];
  const headList = [...new Set(about.heads.map((one) => one[1]))].sort((a, b) => a - b);
  const cellOf = (index) => [layerList.indexOf(about.heads[index][0]), headList.indexOf(about.heads[index][1])];
  const measures = {
    kept: {title: "Share of the tokens so far that are kept, at this step", share: true,
      of: (p, i) => source.keptCount(place(p, i)) / source.ends[state.step]},
    followed: {title: "Share of the followed tokens that are kept, at this step", share: true,
      of: (p, i) => followed.length ? source.keptCount(place(p, i), followed) / followed.length : NaN},
    overlap: {title: "Overlap of A and B: kept by both / kept by either, at this step", share: true, of: (p, i) => {
      if (!isThere(state.b)) return NaN;
      const a = source.leaving(place(p, i)), b = source.leaving(place(state.b, i));
      let both = 0, either = 0;
      for (let t = 0; t < source.ends[state.step]; ++t) {
        const inA = a(t) > state.step, inB = b(t) > state.step;
        both += inA && inB;
        either += inA || inB;
      }
      return both / either;
    }},
  };
  about.measures.forEach((info, m) => {
    measures[info.name] = {...info, title: info.title + ", whole replay", of: (p, i) => source.measure(m, p, state.budget, i)};
  });

  let gridValues = [];
  function drawGrid(g, width, height) {
    const measure = measures[state.measure] || measures.kept;
    gridValues = about.heads.map((_, i) => (isThere(state.a) ? measure.of(state.a, i) : NaN));
    const known = gridValues.filter(Number.isFinite);
    const low = measure.share ? 0 : Math.min(...known), high = measure.share ? 1 : Math.max(...known);
    const left = 22, top = 16, w = (width - left) / layerList.length, h = (height - top - 26) / headList.length;
    g.fillStyle = colour.faint;
    layerList.forEach((layer, i) => { if (w > 20 || i % 5 === 0) g.fillText(layer, left + i * w, 12); });
    headList.forEach((head, i) => { if (h > 10) g.fillText(head, 4, top + (i + 0.5) * h + 4); });
    about.heads.forEach((_, i) => {
      const [x, y] = cellOf(i), value = gridValues[i];
      g.fillStyle = Number.isFinite(value) ? viridis(high > low ? (value - low) / (high - low) : 0.5) : colour.ground;
      g.fillRect(left + x * w, top + y * h, Math.max(1, w - 1), Math.max(1, h - 1));
    });
    const outline = (i, c) => {
      const [x, y] = cellOf(i);
      g.strokeStyle = c;
      g.lineWidth = 3;
      g.strokeRect(left + x * w, top + y * h, Math.max(2, w - 1), Math.max(2, h - 1));
    };
    outline(state.index, colour.ink);
    if (pointed.index >= 0) outline(pointed.index, colour.mark);
    if (known.length) {  // the scale
      for (let i = 0; i < 100; ++i) {
        g.fillStyle = viridis(i / 99);
        g.fillRect(left + 60 + i * 1.2, height - 16, 2, 8);
      }
      g.fillStyle = colour.faint;
      g.textAlign = "right";
      g.fillText(digits(low), left + 54, height - 8);
      g.textAlign = "left";
      g.fillText(digits(high), left + 188, height - 8);
    }
    const index = pointed.index >= 0 ? pointed.index : state.index;
    const b = isThere(state.b) && state.measure !== "overlap" ? `; B: ${digits(measure.of(state.b, index))}` : "";
    $("grid-said").textContent = `${measure.title}. Layers →, heads ↓. ${headName(index)}: ${digits(gridValues[index])}${b}`;
  }
  function pickGrid(x, y, width, height) {
    const layer = layerList[Math.floor((x - 22) / (width - 22) * layerList.length)];
    const head = headList[Math.floor((y - 16) / (height - 42) * headList.length)];
    return {index: source.headIndex(layer, head)};
  }
  function moveGrid(dx, dy) {
    const [x, y] = cellOf(state.index);
    const index = source.headIndex(layerList[clamp(x + dx, 0, layerList.length - 1)],
      headList[clamp(y + dy, 0, headList.length - 1)]);
    if (index >= 0) state.index = index;
    redraw();
  }

  // ---- keys -------------------------------------------------------------------------------------

  const PAD = 8;
  function drawKeys(g, width, height) {
    const {x, y, explained} = source.keys(state.index);
    const at = (t) => [PAD + x[t] / 255 * (width - 2 * PAD), height - PAD - y[t] / 255 * (height - 2 * PAD)];
    g.strokeStyle = colour.line;
    g.strokeRect(0.5, 0.5, width - 1, height - 1);
    const look = {kept: colour.kept, both: colour.faint, "only-a": colour.kept, "only-b": colour.evicted, gone: colour.evicted,
      merged: colour.merged, window: colour.line};
    const end = source.ends[state.step];
    for (const drawn of [false, true]) {  // what is kept lies on top
      for (let t = 0; t < end; ++t) {
        const open = ["gone", "merged", "window"].includes(fates[t]);
        if (open === drawn) continue;
        const [px, py] = at(t);
        g.beginPath();
        g.arc(px, py, 2.2, 0, 7);
        g.globalAlpha = open ? 0.45 : 0.9;
        g[open ? "strokeStyle" : "fillStyle"] = look[fates[t]];
        g.lineWidth = 0.8;
        if (open) g.stroke(); else g.fill();
      }
    }
    g.globalAlpha = 1;
    g.strokeStyle = colour.mark;
    g.lineWidth = 2;
    for (const t of [shownToken(), ...followed]) {
      if (t < 0) continue;
      g.beginPath();
      g.arc(...at(t), 5, 0, 7);
      g.stroke();
    }
    $("keys-said").textContent = `two principal components, ${percent(explained[0])} and ${percent(explained[1])} of the variance; ` +
      "after RoPE; filled: kept";
  }
  function pickKeys(px, py, width, height) {
    const {x, y} = source.keys(state.index), end = source.ends[state.step];
    let best = -1, nearest = 144;
    for (let t = 0; t < end; ++t) {
      const dx = PAD + x[t] / 255 * (width - 2 * PAD) - px, dy = height - PAD - y[t] / 255 * (height - 2 * PAD) - py;
      if (dx * dx + dy * dy < nearest) [best, nearest] = [t, dx * dx + dy * dy];
    }
    return {token: best};
  }

  // ---- why, attention, answers ------------------------------------------------------------------

  function facts(list, rows) {
    list.replaceChildren();
    for (const [name, text] of rows) if (text) list.append(make("dt", name), make("dd", text));
  }

  function life(policy, token) {
    if (!isThere(policy)) return refusedText(policy);
    const at = place(policy), left = source.leaving(at)(token), info = source.score(at, token);
    const entered = `entered at step ${source.entered[token]}`;
    let text = left === Infinity ? `${entered}, stays` : `${entered}, left at step ${left}: ${FATES[source.leftAs(at, token)]}`;
    if (!info) return text + "; its score is not on this page";
    if (left === Infinity) text += ` (${FATES[info.fate]})`;
    if (info.rank === 0) return text + "; the policy gave no score";
    let present = 0;
    const leaving = source.leaving(at);
    for (let t = 0; t < source.ends[info.step]; ++t) present += leaving(t) >= info.step;
    text += `; at step ${info.step} score about ${digits(info.score)}, rank ${info.rank} of ${present}`;
    return Number.isFinite(info.threshold) ? text + `, threshold ${digits(info.threshold)}` : text;
  }

  function refusedText(policy) {
    const refused = about.refused.find(([p, b]) => p === policy && b === state.budget);
    return refused ? `${about.policies[policy]} at ${about.budgets[state.budget]} is left out: ${refused[2]}` : "";
  }

  function drawWhy() {
    const token = shownToken();
    if (token < 0) return facts($("why"), [["", "Point at a token."]]);
    const readers = [];
    about.rows.forEach((query, row) => {
      const own = query >= token && source.reads(state.index, row).find((one) => one.token === token);
      if (own) readers.push([own.share, `${tokenName(query)} ${percent(own.share)}`]);
    });
    readers.sort((a, b) => b[0] - a[0]);
    const heads = (policy) => about.heads.reduce((sum, _, i) => sum + source.keptCount(place(policy, i), [token]), 0);
    const ahead = token >= source.ends[state.step];
    facts($("why"), [
      ["Token", tokenName(token) + (segmentOf(token) ? `, ${segmentOf(token)}` : "")],
      ["Policy A", life(state.a, token)],
      ["Policy B", state.b >= 0 ? life(state.b, token) : ""],
      ["Heads", ahead || !isThere(state.a) ? "" : `kept in ${heads(state.a)} of ${H} at step ${state.step}` +
        (isThere(state.b) ? `; B: in ${heads(state.b)}` : "")],
      ["Read by", readers.length ? readers.slice(0, 8).map((one) => one[1]).join("; ") : "none of the queries below, among the 16 most"],
    ]);
  }

  function drawReads() {
    let row = state.row;
    if (row < 0) row = about.rows.indexOf(shownToken());
    if (row < 0) row = about.rows.length - 1;
    $("row").value = row;
    const list = $("reads"), left = isThere(state.a) ? source.leaving(place(state.a)) : () => Infinity;
    const most = source.reads(state.index, row);
    list.replaceChildren(...most.map(({token, share}) => {
      const one = make("li"), bar = make("meter");
      bar.max = most[0].share;
      bar.value = share;
      bar.textContent = percent(share);
      one.dataset.t = token;
      one.append(bar, " ", make("span", tokenName(token), left(token) < source.entered[about.rows[row]] ? "gone" : ""),
        ` ${percent(share)}`);
      return one;
    }));
  }

  function buildAnswers() {
    if (!about.answers && !about.wrote) return;
    $("answers").hidden = false;
  }
  function drawAnswers() {
    const list = $("answers-list");
    const shown = [state.a, state.b].filter((p) => p >= 0).map((p) => about.policies[p]);
    const budget = about.budgets[state.budget];
    const rows = (about.answers || []).filter((run) => run.policy === "full" || (shown.includes(run.policy) && run.budget === budget));
    const parts = [];
    if (about.wrote) parts.push(make("p", `The run of this trace wrote: “${about.wrote}”`));
    if (about.answers) {
      for (const policy of shown) {
        if (!rows.some((run) => run.policy === policy)) parts.push(make("p", `The results have no run of ${policy} at ${budget}.`, "note"));
      }
      const table = make("table"), head = make("tr");
      for (const name of ["Policy", "Budget", "Prompt", "Expected", "Answer", "Correct"]) head.append(make("th", name));
      table.append(head);
      for (const run of rows) {
        const line = make("tr");
        const correct = run.correct === null ? "" : run.correct === 1 ? "yes" : run.correct === 0 ? "no" : digits(run.correct);
        for (const text of [run.policy, run.budget, run.prompt < 0 ? "" : run.prompt, run.expected, run.answer, correct]) {
          const cell = make("td", text);
          cell.dir = "auto";
          line.append(cell);
        }
        table.append(line);
      }
      if (rows.length) parts.push(table);
    }
    list.replaceChildren(...parts);
  }

  // ---- drawing all ------------------------------------------------------------------------------

  const pictures = {
    strip: new Picture("strip", drawStrip(() => state.a), pickStrip, (dx, dy) => (dx ? moveToken(dx) : moveStep(dy))),
    stripB: new Picture("strip-b", drawStrip(() => state.b), pickStrip, (dx, dy) => (dx ? moveToken(dx) : moveStep(dy))),
    grid: new Picture("grid", drawGrid, pickGrid, moveGrid),
    keys: new Picture("keys", drawKeys, pickKeys, (dx, dy) => moveToken(dx || dy)),
  };

  let drawn = "";  // what the pictures of a whole head were drawn for
  function drawNow() {
    waiting = false;
    const hasB = isThere(state.b);
    fates = isThere(state.a) ? fatesOf(state.a, hasB ? state.b : -1) : new Array(T).fill("ahead");
    drawText();
    pictures.strip.draw(stripHeight());
    $("strip-b-part").hidden = !hasB;
    if (hasB) pictures.stripB.draw(stripHeight());
    pictures.grid.draw(42 + headList.length * clamp(160 / headList.length, 8, 28));
    pictures.keys.draw(220);
    drawWhy();
    drawReads();
    const now = [state.a, state.b, state.budget].join();
    if (now !== drawn) drawAnswers();
    drawn = now;
    const [first, end] = about.steps[state.step];
    $("budget-said").textContent = `${about.budgets[state.budget]} = ${isThere(state.a) ? source.entries(state.a, state.budget) + " entries" : "refused"}`;
    $("step-said").textContent = `${state.step} of ${S - 1}, ${end - first === 1 ? "token " + first : `tokens ${first}–${end - 1}`}`;
    const strip = pointed.step >= 0 ? `step ${pointed.step}, ` : "";
    $("strip-said").textContent = strip + `${headName(state.index)}; blue: in the cache, orange: leaves; ` +
      (isThere(state.a) ? `kept at step ${state.step}: ${source.keptCount(place(state.a))}` : refusedText(state.a));
    for (const [id, text] of [["strip", "Film strip"], ["strip-b", "Film strip of policy B"], ["keys", "Keys in two components"], ["grid", "Layers and heads"]]) {
      $(id).setAttribute("aria-label", `${text}, ${headName(state.index)}, step ${state.step}`);
    }
    if (followed.length && isThere(state.a)) {
      const counts = about.heads.map((_, i) => source.keptCount(place(state.a, i), followed));
      $("follow-said").textContent = `${followed.length} tokens followed: all kept in ${counts.filter((n) => n === followed.length).length} ` +
        `of ${H} heads at step ${state.step}, none in ${counts.filter((n) => n === 0).length}.`;
    }
    for (const [id, value] of [["a", state.a], ["b", state.b], ["budget", state.budget], ["step", state.step], ["head", state.index],
      ["measure", state.measure in measures ? state.measure : "kept"], ["find", state.find], ["follow", state.follow]]) {
      if (document.activeElement !== $(id) && $(id).value !== String(value)) $(id).value = value;
    }
    writeFragment();
  }

  let waiting = false;
  function redraw() {
    if (!waiting) requestAnimationFrame(drawNow);
    waiting = true;
  }

  function pointAt({token = -1, step = -1, index = -1}) {
    if (token === pointed.token && step === pointed.step && index === pointed.index) return;
    pointed = {token, step, index};
    redraw();
  }
  function hold() {
    if (pointed.index >= 0) state.index = pointed.index;
    if (pointed.token >= 0) state.token = state.token === pointed.token ? -1 : pointed.token;
    if (pointed.step >= 0) state.step = pointed.step;
    redraw();
    say();
  }
  function say() {  // to who listens
    const token = state.token >= 0 ? `Token ${tokenName(state.token)}: ${isThere(state.a) ? life(state.a, state.token) : ""}. ` : "";
    $("said").textContent = `${token}${headName(state.index)}, step ${state.step}`;
  }

  // ---- controls ---------------------------------------------------------------------------------

  function readWords() {
    found = search(state.find);
    $("find-said").textContent = state.find ? `${found.length} found` : "";
    const list = tokensOf(state.follow);
    followed = list || [];
    $("follow-said").textContent = list ? "" : `Follow: “${state.follow}” names no tokens; write 120-131,140 or a segment.`;
  }

  function options(id, names, first) {
    const list = names.map((name, i) => {
      const one = make("option", name);
      one.value = i;
      return one;
    });
    $(id).replaceChildren(...(first ? [first] : []), ...list);
  }

  function buildControls() {
    const none = make("option", "none");
    none.value = -1;
    options("a", about.policies);
    options("b", about.policies, none);
    options("head", about.heads.map((_, i) => headName(i)));
    options("row", about.rows.map((t) => tokenName(t)));
    const segments = [...new Set(about.segments.map((one) => one[1]))].filter(Boolean);
    const choose = make("option", "choose");
    choose.value = "";
    options("segment", segments, choose);
    for (const one of $("segment").options) if (one.value) one.value = one.textContent;
    $("segment").parentNode.hidden = !segments.length;
    for (const [name, measure] of Object.entries(measures)) {
      const one = make("option", measure.title);
      one.value = name;
      $("measure").append(one);
    }
    $("budget").max = source.B - 1;
    $("step").max = S - 1;
    const listen = (id, event, take) => $(id).addEventListener(event, () => {
      take($(id).value);
      redraw();
    });
    listen("a", "change", (value) => { state.a = Number(value); });
    listen("b", "change", (value) => { state.b = Number(value); });
    listen("budget", "input", (value) => { state.budget = Number(value); });
    listen("step", "input", (value) => { state.step = Number(value); });
    listen("head", "change", (value) => { state.index = Number(value); });
    listen("row", "change", (value) => { state.row = Number(value); });
    listen("measure", "change", (value) => { state.measure = value; });
    listen("find", "input", (value) => { state.find = value; readWords(); });
    listen("follow", "input", (value) => { state.follow = value; readWords(); });
    listen("segment", "change", (value) => { state.follow = $("follow").value = value; readWords(); });
    const next = () => {
      if (!found.length) return;
      const after = found.find(([first]) => first > state.token) || found[0];
      state.token = after[0];
      spans[state.token].scrollIntoView({block: "center"});
      redraw();
      say();
    };
    $("next").addEventListener("click", next);
    $("controls").addEventListener("submit", (event) => { event.preventDefault(); next(); });
    for (const id of ["text", "reads"]) {
      const tokenAt = (event) => {
        const node = event.target.closest("[data-t]");
        return node ? {token: Number(node.dataset.t)} : {};
      };
      $(id).addEventListener("pointermove", (event) => pointAt(tokenAt(event)));
      $(id).addEventListener("pointerleave", () => pointAt({}));
      $(id).addEventListener("click", (event) => { pointAt(tokenAt(event)); hold(); });
    }
    onArrows($("text"), (dx, dy) => (dx ? moveToken(dx) : moveStep(dy)));
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      [state.token, state.row, pointed] = [-1, -1, {token: -1, step: -1, index: -1}];
      redraw();
    });
  }

  const THEMES = ["light", "dark", "contrast"];
  const asked = (query) => window.matchMedia && matchMedia(query).matches;
  function showTheme() {
    root.dataset.theme = THEMES.includes(state.theme) ? state.theme : asked("(prefers-contrast: more)") ? "contrast"
      : asked("(prefers-color-scheme: dark)") ? "dark" : "light";
    const next = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % 3];
    $("theme").textContent = {light: "Light", dark: "Dark", contrast: "High contrast"}[next];
    $("theme").setAttribute("aria-label", `Change theme to ${next === "contrast" ? "high contrast" : next}`);
    readColours();
  }

  // ---- for scripts ------------------------------------------------------------------------------

  // A place in names or numbers: policy and budget as the page writes them, or from 0 on; what is missing is that shown.
  function placeOf({policy = state.a, budget = state.budget, layer, head, step = state.step} = {}) {
    const p = typeof policy === "string" ? about.policies.indexOf(policy) : policy;
    let b = about.budgets.indexOf(String(budget));
    if (b < 0 && typeof budget === "number") {
      b = about.entries[p] ? about.entries[p].indexOf(budget) : -1;
      if (b < 0 && budget < source.B) b = budget;
    }
    const shown = about.heads[state.index];
    const index = source.headIndex(layer === undefined ? shown[0] : layer, head === undefined ? shown[1] : head);
    if (!(p in about.policies) || !(b in about.budgets) || index < 0 || !(step in about.steps)) {
      throw new RangeError("kvloupe: this page has no such policy, budget, layer, head or step");
    }
    if (!source.entries(p, b)) throw new RangeError("kvloupe: this policy refused this budget");
    return {policy: p, budget: b, index, step};
  }

  const api = {
    about,
    kept: (of) => source.kept(placeOf(of)),
    score: (of, token) => source.score(placeOf(of), token),
    keys: (of) => source.keys(placeOf(of).index),
    reads: (of, query) => source.reads(placeOf(of).index, about.rows.indexOf(query)),
    measure: (name, of) => { const at = placeOf(of); return source.measure(about.measures.findIndex((m) => m.name === name), at.policy, at.budget, at.index); },
    state: () => ({...state}),
  };

  // ---- begin ------------------------------------------------------------------------------------

  async function begin() {
    for (const line of about.problems) problem(line);
    $("loop").textContent = about.loop;
    facts($("made"), [...about.made, ...about.notes.map((note) => ["Note", note])]);
    fromFragment();
    showTheme();
    const names = source.names(), first = ["kept-" + state.a, "left-" + state.a, "kept-" + state.b, "left-" + state.b, "measures", "keys",
      "attention", `score-${state.a}-${state.budget}`];
    await Promise.all(first.map((name) => source.load(name)));
    buildText();
    buildControls();
    buildAnswers();
    readWords();
    $("controls").hidden = false;
    document.querySelector("main").hidden = false;
    // Only what was read can be chosen until all is.
    const choices = ["a", "b"].map($);
    for (const one of choices) one.disabled = true;
    drawNow();
    await new Promise((done) => setTimeout(done, 0));
    for (const name of names) await source.load(name);
    for (const one of choices) one.disabled = false;
    window.addEventListener("hashchange", () => { fromFragment(); showTheme(); readWords(); redraw(); });
    window.addEventListener("resize", redraw);
    $("theme").addEventListener("click", () => {
      state.theme = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % 3];
      showTheme();
      redraw();
    });
    drawNow();
    window.kvloupe = api;
    root.dataset.ready = "all";
  }
  begin().catch((error) => problem("This page is damaged: " + error.message + ". Write it again with kvloupe page."));
})();
