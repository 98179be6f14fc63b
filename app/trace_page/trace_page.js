"use strict";
// The program of the page of a whole trace. EmbeddedSource knows the numbers; everything else asks it, so that another
// source (a server) can stand in its place. Pictures are drawn from numbers. What is chosen is `state`, which the
// address holds; what the pointer is over is `pointed`.
(() => {
  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);
  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
  const make = (name, text, className = "") => Object.assign(document.createElement(name), {textContent: text, className});
  const problem = (text) => $("problems").append(make("p", text, "problem"));

  // ---- the numbers ------------------------------------------------------------------------------

  // A place is {policy, budget, head, step}, each from 0 on in the lists of `about`. trace_page.h describes the arrays.
  const READS = 16;
  class EmbeddedSource {
    constructor() {
      this.about = JSON.parse($("about").textContent);
      const {tokens, heads, policies, budgets, steps} = this.about;
      Object.assign(this, {arrays: {}, T: tokens.length, H: heads.length, P: policies.length, B: budgets.length, S: steps.length});
      this.ends = steps.map(([, end]) => end);
      this.entered = tokens.map((_, t) => this.ends.findIndex((end) => end > t));
      this.names = [...document.querySelectorAll("script[id^='data-']")].map((one) => one.id.slice(5));
    }

    async load(name) {
      if (this.arrays[name] || !this.names.includes(name)) return;
      const bytes = Uint8Array.from(atob($("data-" + name).textContent), (letter) => letter.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      const buffer = await new Response(stream).arrayBuffer();
      const Type = {measures: Float32Array, reads: Uint32Array}[name] ||
        (name.startsWith("kept-") && this.about.wide_steps ? Uint16Array : Uint8Array);
      this.arrays[name] = new Type(buffer);
    }

    entries({policy, budget}) { return policy < 0 ? 0 : this.about.entries[policy][budget]; }  // 0: refused, or none

    // A function that says at which step a token left; Infinity: it stays.
    leaving({policy, budget, head}) {
      const {T, B} = this, codes = this.arrays["kept-" + policy], from = head * T * B + budget;
      const stays = this.about.wide_steps ? 0xFFFF : 0xFF;
      return (token) => (codes[from + token * B] === stays ? Infinity : codes[from + token * B]);
    }

    leftAs({policy, budget, head}, token) {
      const fates = this.arrays["left-" + policy];
      return fates ? fates[(head * this.T + token) * this.B + budget] : 0;
    }

    kept(place) {
      const left = this.leaving(place), tokens = [];
      for (let t = 0; t < this.ends[place.step]; ++t) if (left(t) > place.step) tokens.push(t);
      return tokens;
    }

    measure(number, {policy, budget, head}) {
      return this.arrays.measures[((number * this.P + policy) * this.B + budget) * this.H + head];
    }

    // Of a token's last step in the head; null where the page has none.
    score(place, token) {
      const bytes = this.arrays[`score-${place.policy}-${place.budget}`];
      if (!bytes) return null;
      const {H, S, T} = this, plane = (n) => bytes[4 * H * S + (n * H + place.head) * T + token];
      const step = Math.min(this.leaving(place)(token), S - 1), bits = new DataView(new ArrayBuffer(4));
      bits.setUint16(0, 256 * plane(0) + plane(1));
      return {step, score: bits.getFloat32(0), rank: 256 * plane(2) + plane(3), fate: plane(4),
        threshold: new Float32Array(bytes.buffer, 4 * (place.head * S + step), 1)[0]};
    }

    // The places of all keys in 255ths, and what the two components explain.
    keys({head}) {
      const {H, T, arrays: {keys}} = this, from = 24 * H + 2 * T * head, facts = new Float32Array(keys.buffer, 24 * head, 6);
      return {x: keys.subarray(from, from + T), y: keys.subarray(from + T, from + 2 * T), explained: [facts[2], facts[5]]};
    }

    // What a row of attention reads, the most first.
    reads({head}, row) {
      const from = (head * this.about.rows.length + row) * READS, {reads, shares} = this.arrays;
      return [...reads.subarray(from, from + READS)].map((token, i) => ({token, share: (shares[from + i] / 255) ** 2}))
        .filter(({share}) => share > 0);
    }
  }

  if (typeof DecompressionStream === "undefined") {
    problem("This browser is too old for this page: it lacks DecompressionStream. Chrome and Edge have it from 80 on, Safari " +
      "from 16.4, Firefox from 113.");
    return;
  }
  const source = new EmbeddedSource(), {about, T, H, S} = source;

  // ---- words ------------------------------------------------------------------------------------

  const FATES = ["evicted", "kept by its score", "kept by the second stage of the selection", "kept, protected as recent",
    "kept, protected as one of the first tokens", "kept, in the window that the score protects", "merged into other entries",
    "kept, protected by keep, protect_prompt or boundaries", "evicted, named by drop",
    "left the model's sliding window: no later query sees it"];
  const CLASSES = {0: "gone", 6: "merged", 8: "gone", 9: "window"};  // of those that left
  const KEY = {kept: "kept", both: "kept by both", "only-a": "by A only", "only-b": "by B only", gone: "evicted",
    merged: "merged", window: "left the model's window", ahead: "not read yet"};

  const real = (text) => text.replace("e+", "e").replace(/-/g, "−");
  const digits = (value) => (!Number.isFinite(value) ? "–" : real(Math.abs(value) >= 1000 && Math.abs(value) < 1e6
    ? value.toFixed(0) : value.toPrecision(3)));
  const percent = (share) => digits(100 * share) + " %";
  const tokenName = (t) => `${t} “${about.tokens[t]}”`;
  const headName = (head) => `layer ${about.heads[head][0]}, head ${about.heads[head][1]}`;

  // ---- what is shown ----------------------------------------------------------------------------

  // token −1: none is held; row −1: that of the token, else the last.
  const usual = {a: 0, b: -1, budget: (source.B - 1) >> 1, head: 0, step: S - 1, token: -1, row: -1, measure: "kept",
    find: "", follow: "", theme: ""};
  const state = {...usual};
  const NOTHING = {token: -1, step: -1, head: -1};
  let pointed = NOTHING, found = [], followed = [];
  const place = (policy, head = state.head) => ({policy, budget: state.budget, head, step: state.step});
  const isThere = (policy) => source.entries(place(policy)) > 0;
  const shownToken = () => (pointed.token >= 0 ? pointed.token : state.token);
  const countKept = (at, tokens) => {
    const left = source.leaving(at), end = source.ends[at.step];
    return tokens.filter((t) => t < end && left(t) > at.step).length;
  };

  // How a field of the state stands in the address, and is read from it.
  const inList = (list) => [(at) => list[at], (text) => list.indexOf(text)];
  const upTo = (most) => [String, (text) => (/^\d+$/.test(text) ? Math.min(Number(text), most) : -1)];
  const text = [String, String];
  const FIELDS = {a: inList(about.policies), b: inList(about.policies), budget: inList(about.budgets),
    head: inList(about.heads.map((one) => one.join("."))), step: upTo(S - 1), token: upTo(T - 1),
    row: inList(about.rows.map(String)), measure: text, find: text, follow: text, theme: text};
  let written = "";

  function readAddress() {
    const words = new URLSearchParams(location.hash.slice(1));
    for (const [name, [, read]] of Object.entries(FIELDS)) {
      const value = words.has(name) ? read(words.get(name)) : usual[name];
      state[name] = value < 0 ? usual[name] : value;
    }
    showTheme();
    readWords();
  }

  function writeAddress() {
    const words = new URLSearchParams();
    for (const [name, [write]] of Object.entries(FIELDS)) {
      if (state[name] !== -1 && state[name] !== "") words.set(name, write(state[name]));
    }
    if (written === String(words)) return;
    written = String(words);
    try {
      history.replaceState(null, "", "#" + words);
    } catch (error) {
      // A frame without an address of its own: the page works without one.
    }
  }

  // "120-131,140" or a segment's name as tokens; null: neither.
  function tokensOf(words) {
    const segmentAt = (t) => about.segments.filter(([first]) => first <= t).pop()[1];
    const all = about.tokens.map((_, t) => t);
    if (about.segments.some(([, name]) => name && name === words)) return all.filter((t) => segmentAt(t) === words);
    const ranges = words.split(",").map((part) => /^\s*(\d+)\s*(?:-\s*(\d+)\s*)?$/.exec(part));
    if (ranges.includes(null)) return words.trim() ? null : [];
    return all.filter((t) => ranges.some(([, first, last = first]) => t >= first && t <= last));
  }

  const whole = about.tokens.join("").toLowerCase();
  const ownerOf = about.tokens.flatMap((one, t) => new Array(one.toLowerCase().length).fill(t));  // of each letter
  function readWords() {
    const wanted = state.find.toLowerCase();
    found = [];
    for (let at = wanted ? whole.indexOf(wanted) : -1; at >= 0; at = whole.indexOf(wanted, at + 1)) {
      found.push([ownerOf[at], ownerOf[at + wanted.length - 1]]);
    }
    $("find-said").textContent = wanted ? `${found.length} found` : "";
    followed = tokensOf(state.follow) || [];
    $("follow-said").textContent = tokensOf(state.follow) ? ""
      : `Follow: “${state.follow}” names no tokens; write 120-131,140 or a segment.`;
  }

  // ---- text -------------------------------------------------------------------------------------

  const spans = about.tokens.map((one, t) => {
    const span = make("span", one);
    span.dataset.t = t;
    return span;
  });

  function buildText() {
    let line = null;
    spans.forEach((span, t) => {
      if (line === null) {
        line = $("text").appendChild(make("div", ""));
        line.dir = "auto";
      }
      line.append(span);
      if (about.tokens[t].includes("↵")) line = null;
    });
  }

  // The fate of every token in the chosen head: a word of KEY.
  function fatesNow() {
    if (!isThere(state.a)) return about.tokens.map(() => "ahead");
    const a = source.leaving(place(state.a)), b = isThere(state.b) ? source.leaving(place(state.b)) : null;
    return about.tokens.map((_, t) => {
      const inA = a(t) > state.step, inB = b && b(t) > state.step;
      if (t >= source.ends[state.step]) return "ahead";
      if (b) return inA && inB ? "both" : inA ? "only-a" : inB ? "only-b" : "gone";
      return inA ? "kept" : CLASSES[source.leftAs(place(state.a), t)];
    });
  }

  let fates = [];
  function drawText() {
    const isFound = new Set(found.flatMap(([first, last]) => spans.slice(first, last + 1)));
    const isFollowed = new Set(followed);
    spans.forEach((span, t) => {
      const name = fates[t] + (isFound.has(span) ? " found" : "") + (isFollowed.has(t) ? " followed" : "") +
        (t === state.token ? " held" : "") + (t === pointed.token ? " pointed" : "");
      if (span.className !== name) span.className = name;
    });
    $("key").replaceChildren(...Object.keys(KEY).filter((name) => fates.includes(name)).map((name) => make("span", KEY[name], name)));
  }

  // ---- pictures ---------------------------------------------------------------------------------

  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name);
  const VIRIDIS = [[68, 1, 84], [72, 40, 120], [62, 73, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121],
    [110, 206, 88], [181, 222, 43], [253, 231, 37]];
  function viridis(share) {
    const at = clamp(share, 0, 1) * (VIRIDIS.length - 1), low = Math.min(Math.floor(at), VIRIDIS.length - 2);
    return `rgb(${VIRIDIS[low].map((value, i) => Math.round(value + (VIRIDIS[low + 1][i] - value) * (at - low)))})`;
  }

  // A canvas in pixels of the screen. pick(x, y, width, height) says what lies there; move(dx, dy) goes on by keys.
  class Picture {
    constructor(id, height, paint, pick, move) {
      Object.assign(this, {node: $(id), height, paint});
      const point = (event) => pointAt(pick(event.offsetX, event.offsetY, this.node.clientWidth, height));
      for (const name of ["pointermove", "pointerdown"]) this.node.addEventListener(name, point);
      this.node.addEventListener("pointerleave", () => pointAt({}));
      this.node.addEventListener("click", hold);
      this.node.style.height = height + "px";
      onArrows(this.node, move);
    }

    draw() {
      this.node.setAttribute("aria-label", `${this.node.dataset.name}, ${headName(state.head)}, step ${state.step}`);
      if (!this.node.clientWidth) return;
      const ratio = window.devicePixelRatio || 1, width = this.node.clientWidth, g = this.node.getContext("2d");
      Object.assign(this.node, {width: Math.round(width * ratio), height: Math.round(this.height * ratio)});
      g.scale(ratio, ratio);
      g.font = "12px Inter, system-ui, sans-serif";
      this.paint(g, width, this.height);
    }
  }

  function onArrows(node, move) {
    const moves = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-T, 0], End: [T, 0]};
    node.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || !(moves[event.key] || event.key === "Enter")) return;
      event.preventDefault();
      if (event.key === "Enter") return hold();
      pointed = NOTHING;
      move(...moves[event.key].map((by) => by * (event.shiftKey ? 10 : 1)));
      redraw();
    });
  }

  function moveToken(by) {
    state.token = clamp(state.token + by, 0, T - 1);
    spans[state.token].scrollIntoView({block: "nearest"});
  }
  const moveInTime = (dx, dy) => (dx ? moveToken(dx) : (state.step = clamp(state.step + dy, 0, S - 1)));

  // Tokens along x, steps down: blue while a token is in the head, a mark where it leaves; the segments above.
  const BAND = 8;
  const paintStrip = (side) => (g, width, height) => {
    const at = place(state[side]), row = (height - BAND) / S;
    const cell = (first, end, top, rows) => {
      const x = Math.floor(first / T * width), to = Math.max(x + 1, Math.floor(end / T * width));
      g.fillRect(x, top, to - x, rows);
    };
    about.segments.forEach(([first], i) => {
      g.fillStyle = colour(i % 2 ? "both-ground" : "line");
      cell(first, (about.segments[i + 1] || [T])[0], 0, BAND - 3);
    });
    if (isThere(at.policy)) {
      const left = source.leaving(at), looks = {gone: colour("evicted"), merged: colour("merged"), window: colour("line")};
      g.fillStyle = colour("kept");
      const top = (step) => BAND + step * row;
      for (let t = 0; t < T; ++t) {
        const from = source.entered[t];
        cell(t, t + 1, top(from), (Math.min(left(t), S) - from) * row);
      }
      for (let t = 0; t < T; ++t) {
        if (left(t) === Infinity) continue;
        g.fillStyle = looks[CLASSES[source.leftAs(at, t)]];
        cell(t, t + 1, top(left(t)), row);
      }
    }
    g.strokeStyle = colour("ink");
    g.strokeRect(0.5, BAND + state.step * row, width - 1, row);
    g.fillStyle = colour("mark");
    if (shownToken() >= 0) cell(shownToken(), shownToken() + 1, 0, height);
    for (const t of followed) cell(t, t + 1, BAND - 3, 3);
  };
  const pickStrip = (x, y, width, height) => ({token: clamp(Math.floor(x / width * T), 0, T - 1),
    step: clamp(Math.floor((y - BAND) / (height - BAND) * S), 0, S - 1)});

  // ---- layers and heads -------------------------------------------------------------------------

  const axes = [0, 1].map((part) => [...new Set(about.heads.map((one) => one[part]))].sort((a, b) => a - b));
  const cellOf = (head) => axes.map((list, part) => list.indexOf(about.heads[head][part]));
  const headAt = (x, y) => about.heads.findIndex(([layer, head]) => layer === axes[0][x] && head === axes[1][y]);
  const countOf = (at) => source.kept(at).length;
  const measures = {
    kept: {title: "Share of the tokens so far that are kept, at this step", share: true, of: (at) => countOf(at) / source.ends[at.step]},
    followed: {title: "Share of the followed tokens that are kept, at this step", share: true,
      of: (at) => countKept(at, followed) / followed.length},
    overlap: {title: "Overlap of A and B, kept by both / kept by either, at this step", share: true, of: (at) => {
      if (!isThere(state.b)) return NaN;
      const other = {...at, policy: state.b}, both = countKept(other, source.kept(at));
      return both / (countOf(at) + countOf(other) - both);
    }},
  };
  about.measures.forEach((info, m) => {
    measures[info.name] = {...info, title: info.title + ", whole replay", of: (at) => source.measure(m, at)};
  });

  const LEFT = 22, TOP = 16, UNDER = 26;
  function paintGrid(g, width, height) {
    const measure = measures[state.measure] || measures.kept;
    const values = about.heads.map((_, head) => (isThere(state.a) ? measure.of(place(state.a, head)) : NaN));
    const known = measure.share ? [0, 1] : values.filter(Number.isFinite);
    const low = Math.min(...known), high = Math.max(...known);
    const w = (width - LEFT) / axes[0].length, h = (height - TOP - UNDER) / axes[1].length;
    const box = (head) => { const [x, y] = cellOf(head); return [LEFT + x * w, TOP + y * h, Math.max(1, w - 1), Math.max(1, h - 1)]; };
    values.forEach((value, head) => {
      g.fillStyle = Number.isFinite(value) ? viridis(high > low ? (value - low) / (high - low) : 0.5) : colour("ground");
      g.fillRect(...box(head));
    });
    g.lineWidth = 3;
    for (const [head, name] of [[state.head, "ink"], [pointed.head, "mark"]]) {
      g.strokeStyle = colour(name);
      if (head >= 0) g.strokeRect(...box(head));
    }
    for (let i = 0; i < 100; ++i) {  // the scale
      g.fillStyle = viridis(i / 99);
      g.fillRect(LEFT + 60 + i, height - 16, 2, 8);
    }
    g.fillStyle = colour("faint");
    axes[0].forEach((layer, i) => { if (w > 20 || i % 5 === 0) g.fillText(layer, LEFT + i * w, 12); });
    axes[1].forEach((head, i) => { if (h > 10) g.fillText(head, 4, TOP + (i + 0.5) * h + 4); });
    g.fillText(digits(high), LEFT + 168, height - 8);
    g.textAlign = "right";
    g.fillText(digits(low), LEFT + 54, height - 8);
    const head = pointed.head >= 0 ? pointed.head : state.head;
    const b = isThere(state.b) && measure !== measures.overlap ? `; B: ${digits(measure.of(place(state.b, head)))}` : "";
    $("grid-said").textContent = `${measure.title}. Layers →, heads ↓. ${headName(head)}: ${digits(values[head])}${b}`;
  }
  const pickGrid = (x, y, width, height) => ({head: headAt(Math.floor((x - LEFT) / (width - LEFT) * axes[0].length),
    Math.floor((y - TOP) / (height - TOP - UNDER) * axes[1].length))});
  function moveGrid(dx, dy) {
    const [x, y] = cellOf(state.head);
    const head = headAt(clamp(x + dx, 0, axes[0].length - 1), clamp(y + dy, 0, axes[1].length - 1));
    if (head >= 0) state.head = head;
  }

  // ---- keys -------------------------------------------------------------------------------------

  const PAD = 8;
  const keyPlaces = (width, height) => {
    const {x, y} = source.keys(place(state.a));
    return (t) => [PAD + x[t] / 255 * (width - 2 * PAD), height - PAD - y[t] / 255 * (height - 2 * PAD)];
  };
  function paintKeys(g, width, height) {
    const at = keyPlaces(width, height), {explained} = source.keys(place(state.a));
    const dot = (t, size, fill) => {
      g.beginPath();
      g.arc(...at(t), size, 0, 7);
      if (fill) g.fill(); else g.stroke();
    };
    const open = {gone: "evicted", merged: "merged", window: "line"};
    const filled = {kept: "kept", both: "faint", "only-a": "kept", "only-b": "evicted"};  // on top
    for (const [looks, fill] of [[open, false], [filled, true]]) {
      for (const [name, look] of Object.entries(looks)) {
        g.fillStyle = g.strokeStyle = colour(look);
        g.globalAlpha = fill ? 0.9 : 0.45;
        fates.forEach((fate, t) => { if (fate === name) dot(t, 2.2, fill); });
      }
    }
    Object.assign(g, {globalAlpha: 1, strokeStyle: colour("mark"), lineWidth: 2});
    for (const t of [shownToken(), ...followed]) if (t >= 0) dot(t, 5, false);
    $("keys-said").textContent = `two principal components, ${explained.map(percent).join(" and ")} of the variance; after RoPE; filled: kept`;
  }
  function pickKeys(x, y, width, height) {
    const at = keyPlaces(width, height);
    const near = (t) => Math.hypot(at(t)[0] - x, at(t)[1] - y);
    const best = fates.reduce((low, fate, t) => (fate !== "ahead" && (low < 0 || near(t) < near(low)) ? t : low), -1);
    return {token: best >= 0 && near(best) < 12 ? best : -1};
  }

  // ---- why, attention, answers ------------------------------------------------------------------

  function facts(list, rows) {
    list.replaceChildren(...rows.filter(([, said]) => said).flatMap(([name, said]) => [make("dt", name), make("dd", said)]));
  }

  const refusal = (policy) => about.refused.filter(([p, b]) => p === policy && b === state.budget)
    .map(([, , why]) => `${about.policies[policy]} at ${about.budgets[state.budget]} is left out: ${why}`).join();

  function life(policy, token) {
    if (policy < 0 || !isThere(policy)) return refusal(policy);
    const at = place(policy), leaving = source.leaving(at), left = leaving(token), last = source.score(at, token);
    const entered = `entered at step ${source.entered[token]}, `;
    const said = entered + (left === Infinity ? "stays" : `left at step ${left}: ${FATES[source.leftAs(at, token)]}`);
    if (!last) return said + "; its score is not on this page";
    const why = left === Infinity ? ` (${FATES[last.fate]})` : "";
    if (last.rank === 0) return said + why + "; the policy gave no score";
    const present = about.tokens.filter((_, t) => t < source.ends[last.step] && leaving(t) >= last.step).length;
    return `${said}${why}; at step ${last.step} score about ${real(last.score.toPrecision(2))}, rank ${last.rank} of ${present}` +
      (Number.isFinite(last.threshold) ? `, threshold ${digits(last.threshold)}` : "");
  }

  function drawWhy() {
    const token = shownToken();
    if (token < 0) return facts($("why"), [["", "Point at a token."]]);
    const readers = about.rows.map((query, row) => [query, source.reads(place(state.a), row).find((one) => one.token === token)])
      .filter(([, own]) => own).sort(([, a], [, b]) => b.share - a.share).slice(0, 8);
    const heads = (policy) => about.heads.filter((_, head) => countKept(place(policy, head), [token])).length;
    const segment = about.segments.filter(([first]) => first <= token).map(([, name]) => name).pop();
    facts($("why"), [
      ["Token", tokenName(token) + (segment ? `, ${segment}` : "")],
      ["Policy A", life(state.a, token)],
      ["Policy B", life(state.b, token)],
      ["Heads", isThere(state.a) && `kept in ${heads(state.a)} of ${H} at step ${state.step}` +
        (isThere(state.b) ? `; B: in ${heads(state.b)}` : "")],
      ["Read by", readers.map(([query, own]) => `${tokenName(query)} ${percent(own.share)}`).join("; ") ||
        "none of the queries below, among the 16 most"],
    ]);
  }

  function drawReads() {
    const own = state.row >= 0 ? state.row : about.rows.indexOf(shownToken()), row = own >= 0 ? own : about.rows.length - 1;
    const left = isThere(state.a) ? source.leaving(place(state.a)) : () => Infinity, list = source.reads(place(state.a), row);
    $("row").value = row;
    $("reads").replaceChildren(...list.map(({token, share}) => {
      const line = make("li", ""), bar = Object.assign(make("meter", ""), {max: list[0].share, value: share});
      line.dataset.t = token;
      line.append(bar, " ", make("span", tokenName(token), left(token) < source.entered[about.rows[row]] ? "gone" : ""),
        " " + percent(share));
      return line;
    }));
  }

  function drawAnswers() {
    const shown = [state.a, state.b].filter((policy) => policy >= 0).map((policy) => about.policies[policy]);
    const budget = about.budgets[state.budget], all = about.answers || [];
    const isOf = (policy) => (run) => run.policy === policy && run.budget === budget;
    const runs = all.filter((run) => run.policy === "full" || shown.some((policy) => isOf(policy)(run)));
    const missing = shown.filter((policy) => all.length && !all.some(isOf(policy)));
    const table = make("table", ""), names = ["Policy", "Budget", "Prompt", "Expected", "Answer", "Correct"];
    const line = (kind, cells) => table.appendChild(make("tr", "")).append(...cells.map((cell) => make(kind, cell)));
    line("th", names);
    for (const run of runs) {
      line("td", [run.policy, run.budget, run.prompt < 0 ? "" : run.prompt, run.expected, run.answer,
        {0: "no", 1: "yes"}[run.correct] || ""]);
    }
    $("answers").hidden = !all.length && !about.wrote;
    $("answers-list").replaceChildren(make("p", about.wrote ? `The run of this trace wrote: “${about.wrote}”` : ""),
      ...missing.map((policy) => make("p", `The results have no run of ${policy} at ${budget}.`, "note")), ...(runs.length ? [table] : []));
  }

  // ---- drawing all ------------------------------------------------------------------------------

  let pictures = [];
  function buildPictures() {
    const strip = BAND + clamp(S * 9, 60, 320);
    pictures = [new Picture("strip", strip, paintStrip("a"), pickStrip, moveInTime),
      new Picture("strip-b", strip, paintStrip("b"), pickStrip, moveInTime),
      new Picture("grid", TOP + UNDER + axes[1].length * clamp(160 / axes[1].length, 8, 28), paintGrid, pickGrid, moveGrid),
      new Picture("keys", 220, paintKeys, pickKeys, (dx, dy) => moveToken(dx || dy))];
  }

  let waiting = false;
  function drawNow() {
    waiting = false;
    fates = fatesNow();
    $("strip-b-part").hidden = !isThere(state.b);
    for (const part of [drawText, drawWhy, drawReads, drawAnswers, writeAddress]) part();
    for (const picture of pictures) picture.draw();
    const [first, end] = about.steps[state.step], entries = source.entries(place(state.a));
    $("budget-said").textContent = `${about.budgets[state.budget]} = ${entries ? entries + " entries" : "refused"}`;
    $("step-said").textContent = `${state.step} of ${S - 1}, ` + (end - first > 1 ? `tokens ${first}–${end - 1}` : `token ${first}`);
    $("strip-said").textContent = (pointed.step >= 0 ? `step ${pointed.step}; ` : "") + `${headName(state.head)}; blue: in the cache, ` +
      `orange: leaves; ` + (entries ? `${countOf(place(state.a))} kept at step ${state.step}` : refusal(state.a));
    if (followed.length && entries) {
      const counts = about.heads.map((_, head) => countKept(place(state.a, head), followed));
      const having = (count) => counts.filter((one) => one === count).length;
      $("follow-said").textContent = `${followed.length} tokens followed: all kept in ${having(followed.length)} of ${H} heads at step ` +
        `${state.step}, none in ${having(0)}.`;
    }
    for (const id of CONTROLS) if (document.activeElement !== $(id) && id !== "row") $(id).value = state[id];
  }
  function redraw() {
    if (!waiting) requestAnimationFrame(drawNow);
    waiting = true;
  }
  function pointAt(what) {
    const next = {...NOTHING, ...what};
    if (Object.keys(next).every((name) => next[name] === pointed[name])) return;
    pointed = next;
    redraw();
  }
  function hold() {
    const {token, step, head} = pointed;
    if (head >= 0) state.head = head;
    if (token >= 0) state.token = state.token === token ? -1 : token;
    if (step >= 0) state.step = step;
    redraw();
  }

  // ---- controls ---------------------------------------------------------------------------------

  const CONTROLS = ["a", "b", "budget", "step", "head", "row", "measure", "find", "follow"];
  function buildControls() {
    const fill = (id, names, value = (i) => i) => $(id).append(...names.map((name, i) => Object.assign(make("option", name), {value: value(i, name)})));
    fill("a", about.policies);
    fill("b", ["none", ...about.policies], (i) => i - 1);
    fill("head", about.heads.map((_, head) => headName(head)));
    fill("row", about.rows.map(tokenName));
    fill("measure", Object.values(measures).map((one) => one.title), (i) => Object.keys(measures)[i]);
    fill("segments", [...new Set(about.segments.map(([, name]) => name))].filter(Boolean), (_, name) => name);
    $("budget").max = source.B - 1;
    $("step").max = S - 1;
    for (const id of CONTROLS) {
      $(id).addEventListener("input", () => {
        state[id] = typeof usual[id] === "number" ? Number($(id).value) : $(id).value;
        readWords();
        redraw();
      });
    }
    $("controls").addEventListener("submit", (event) => {  // the next place of the words
      event.preventDefault();
      if (!found.length) return;
      [state.token] = found.find(([first]) => first > state.token) || found[0];
      moveToken(0);
      redraw();
    });
    for (const node of [$("text"), $("reads")]) {
      const point = (event) => {
        const over = event.target.closest("[data-t]");
        pointAt(over ? {token: Number(over.dataset.t)} : {});
      };
      node.addEventListener("pointermove", point);
      node.addEventListener("pointerleave", () => pointAt({}));
      node.addEventListener("click", (event) => { point(event); hold(); });
    }
    onArrows($("text"), moveInTime);
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      state.token = state.row = -1;
      pointAt({});
      redraw();
    });
    window.addEventListener("hashchange", () => { readAddress(); redraw(); });
    window.addEventListener("resize", redraw);
    $("theme").addEventListener("click", () => { state.theme = nextTheme(); showTheme(); redraw(); });
  }

  const THEMES = {light: "Light", dark: "Dark", contrast: "High contrast"};
  const nextTheme = () => ({light: "dark", dark: "contrast", contrast: "light"})[root.dataset.theme];
  function showTheme() {
    root.dataset.theme = THEMES[state.theme] ? state.theme : matchMedia("(prefers-contrast: more)").matches ? "contrast"
      : matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    $("theme").textContent = THEMES[nextTheme()];
    $("theme").setAttribute("aria-label", "Theme: change to " + THEMES[nextTheme()].toLowerCase());
  }

  // ---- for scripts ------------------------------------------------------------------------------

  // The texts of a list between the commas outside of brackets and quotes.
  const parts = (list) => list.match(/(?:[^,("]|"[^"]*"|\((?:[^()"]|"[^"]*"|\([^()]*\))*\))+/g) || [];
  const [typedPolicies, typedBudgets] = about.typed.map((list) => parts(list).map((one) => one.trim()));

  // A place in the page's names, those that were typed, or from 0 on, a budget also in entries; what is missing is that shown.
  function placeOf({policy = state.a, budget = state.budget, layer, head, step = state.step} = {}) {
    const [ownLayer, ownHead] = about.heads[state.head];
    const p = typeof policy !== "string" ? policy : about.policies.includes(policy) ? about.policies.indexOf(policy)
      : typedPolicies.indexOf(policy);
    const ways = [about.budgets.indexOf(String(budget)), typedBudgets.indexOf(String(budget)), (about.entries[p] || []).indexOf(budget), budget];
    const at = {policy: p, budget: ways.find((way) => way >= 0 && way < source.B), step,
      head: about.heads.findIndex(([l, h]) => l === (layer === undefined ? ownLayer : layer) && h === (head === undefined ? ownHead : head))};
    if (!about.policies[p] || at.budget === undefined || at.head < 0 || !about.steps[step]) {
      throw new RangeError("kvloupe: this page has no such policy, budget, layer, head or step");
    }
    if (!source.entries(at)) throw new RangeError("kvloupe: this policy refused this budget");
    return at;
  }
  const api = {about, kept: (of) => source.kept(placeOf(of)), score: (of, token) => source.score(placeOf(of), token),
    state: () => ({...state})};

  async function begin() {
    for (const line of about.problems) problem(line);
    $("loop").textContent = about.loop;
    facts($("made"), [...about.made, ...about.notes.map((note) => ["Note", note])]);
    readAddress();
    const first = ["measures", "keys", "reads", "shares", ...["kept-", "left-"].flatMap((name) => [name + state.a, name + state.b])];
    await Promise.all(first.map((name) => source.load(name)));
    for (const part of [buildText, buildControls, buildPictures]) part();
    $("controls").hidden = document.querySelector("main").hidden = false;
    // Only what was read can be chosen until all is.
    $("a").disabled = $("b").disabled = true;
    drawNow();
    for (const name of source.names) await source.load(name);
    $("a").disabled = $("b").disabled = false;
    drawNow();
    window.kvloupe = api;
  }
  begin().catch((error) => problem(`This page is damaged (${error.message}). Write it again with kvloupe page.`));
})();
