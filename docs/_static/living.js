/* Living figures without a kernel: a figure draws what Python stored, and computes nothing private. */
(() => {
  "use strict";
  const NS = "http://www.w3.org/2000/svg";
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  const put = (node, attributes, children) => {
    for (const [name, value] of Object.entries(attributes || {}))
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value === true) node.setAttribute(name, "");
      else if (value !== false && value != null) node.setAttribute(name, value);
    node.append(...children.flat(9).filter((c) => c != null));
    return node;
  };
  const html = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => put(document.createElementNS(NS, tag), attributes, children);
  const text = (x, y, words, look, anchor = "middle") =>
    svg("text", { x, y, "text-anchor": anchor, class: look }, String(words));

  /* --- the wire ------------------------------------------------------------------------------ */

  const NAMES = { c1: "client 1", c2: "client 2", c3: "client 3", s: "server", p: "public" };
  const CLIENTS = ["c1", "c2", "c3"];

  /* where parties stand: clients left and the world right, or (on a phone) from top to bottom */
  const slim = (width) => Math.min(104, width / 3 - 8); /* a client on a phone */
  function places(model, width) {
    const wide = width >= 660, at = {};
    if (!model.server) {
      const w = wide ? Math.min(width, 700) : width, x = width / 2, edge = wide ? 58 : slim(width) / 2 + 2;
      at.c1 = [x, 34]; at.c2 = [x - w / 2 + edge, 270]; at.c3 = [x + w / 2 - edge, 270];
      at.p = wide ? [x + w / 2 - 58, 34] : [x, 372];
      return { at, height: wide ? 304 : 406, wide };
    }
    const across = model.middle ? [58, width * 0.36, width * 0.675, width - 58] : [58, 0, width * 0.57, width - 58];
    const down = model.middle ? [34, 178, 300, 406] : [34, 0, 220, 340];
    CLIENTS.forEach((c, i) => { at[c] = wide ? [across[0], 42 + 104 * i] : [width * (i + 0.5) / 3, down[0]]; });
    if (model.middle) at.m = wide ? [across[1], 146] : [width / 2, down[1]];
    at.s = wide ? [across[2], 146] : [width / 2, down[2]];
    at.p = wide ? [across[3], 146] : [width / 2, down[3]];
    return { at, height: wide ? 292 : down[3] + 34, wide };
  }

  function wire(stage, data) {
    let model = data.models[0], step = model.steps.length - 1, eyes = null, client = "c2", timer = null, width = 0;
    const name = (party) => (party === "m" ? model.middle : NAMES[party]);
    const the = (party) => (party[0] === "c" ? name(party) : "the " + name(party));
    const capital = (words) => words[0].toUpperCase() + words.slice(1);
    const parties = () => [...CLIENTS, model.middle && "m", model.server && "s", "p"].filter(Boolean);
    const sees = (from, to) => !eyes || eyes === from || eyes === to;

    const drawing = html("div"), say = html("p", { class: "lv-say", "aria-live": "polite" });
    const cards = html("div", { class: "lv-cards" }), count = html("span", { class: "lv-count" });
    const button = (label, act, look, title) => html("button", { type: "button", class: look, onclick: act, "aria-label": title }, label);
    const back = button("◀ Back", () => go(step - 1));
    const play = button("▶ Play", () => (timer ? pause() : start()), "lv-main");
    const next = button("Step ▶", () => go(step + 1));
    const all = button("See all", () => look(eyes));
    const tabs = html("fieldset", { class: "lv-tabs", "aria-label": "trust model" }, data.models.map((m, i) =>
      html("label", { class: "lv-tab" },
        html("input", { type: "radio", name: "lv-model", checked: i === 0, onchange: () => { pause(); model = m; step = m.steps.length - 1; eyes = null; draw(); } }),
        html("span", {}, m.name))));
    const key = html("p", { class: "lv-key" }, ["exact", "noised", "code"].map((kind) =>
      [html("i", { style: `border-color:var(--lv-${kind}-edge);background:${kind === "code" ? "none" : `var(--lv-${kind}-edge)`}` }), kind === "code" ? "random word" : kind]),
      );
    const view = html("div", { class: "lv-view" });
    stage.replaceChildren(tabs, drawing, say, html("div", { class: "lv-bar" }, back, play, next, count), view, cards, key);

    function look(party) {
      eyes = eyes === party ? null : party;
      if (CLIENTS.includes(party)) client = party;
      draw(true);
      if (eyes) drawing.querySelector(`[data-party=${party}]`).focus();
    }
    function pause() { clearInterval(timer); timer = null; play.textContent = "▶ Play"; }
    function start() {
      if (step === model.steps.length - 1) go(0, true);
      play.textContent = "❚❚ Pause";
      timer = setInterval(() => { if (step < model.steps.length - 1) go(step + 1, true); else pause(); }, 2200);
    }
    function go(to, playing) {
      if (!playing) pause();
      step = Math.max(0, Math.min(model.steps.length - 1, to));
      draw();
      if (playing && step === model.steps.length - 1) pause();
    }

    function node(party, [x, y], small) {
      const own = { c1: 0, c2: 1, c3: 2 }[party], open = sees(party, party);
      const w = small && own != null ? slim(width) : 112, at = model.steps[step].at[party];
      const has = own == null ? "" : `has ${open ? data.sums[own] : "?"}`;
      const line = [has, open ? at : at && own != null ? "…" : ""].filter(Boolean);
      const label = `${[name(party), ...line].join(" ")}: look through its eyes`;
      const press = (event) => { if (event.type === "click" || event.key === "Enter" || event.key === " ") { event.preventDefault(); look(party); } };
      const lines = own == null ? line : [line[0], line[1]].filter(Boolean);
      const top = lines.length === 2 ? -12 : lines.length ? -4 : 5;
      return svg("g", { class: "lv-node", transform: `translate(${x} ${y})`, role: "button", tabindex: 0, "aria-pressed": String(eyes === party), "aria-label": label, "data-party": party, onclick: press, onkeydown: press },
        svg("rect", { x: -w / 2, y: -31, width: w, height: 62, rx: 10 }),
        text(0, top, name(party), "lv-strong"),
        lines.flatMap((words, i) => [" ", text(0, top + 17 * (i + 1), words, "lv-quiet")]));
    }

    function message([from, to, words, kind], { at, wide }, i) {
      const [ax, ay] = at[from], [bx, by] = at[to], dx = bx - ax, dy = by - ay, far = Math.hypot(dx, dy);
      let share = 0.52, ox = 0, oy = 0;
      const up = CLIENTS.includes(from), down = CLIENTS.includes(to);
      if (up && down) { /* two ways between each pair: one outside, one inside */
        const cx = (at.c1[0] + at.c2[0] + at.c3[0]) / 3 - (ax + bx) / 2, cy = (at.c1[1] + at.c2[1] + at.c3[1]) / 3 - (ay + by) / 2;
        const side = Math.sign(-dy * cx + dx * cy) * (from < to ? -1 : 1) * (Math.abs(dy) < 1 ? 15 : 13);
        ox = -dy / far * side; oy = dx / far * side; share = Math.abs(dy) < 1 && !wide ? 0.5 : 0.36;
      } else if (up || down) {
        const middle = (up ? from : to) === "c2" || to === "p", past = at.m && (up ? to : from) !== "m";
        const near = past ? 0.28 : wide ? 0.5 : middle ? 0.54 : 0.38;
        share = up ? near : 1 - near;
      }
      /* what goes past a party passes beside it, not through it */
      const back = down && at.m && from === "s" ? (to === "c2" ? -80 : (wide ? 14 : 34) * ((to === "c3") === wide ? -1 : 1))
        : up && to === "p" && at.s && !wide ? -60 : 0;
      if (back && (to === "c2" || to === "p")) share = 0.5; /* where there is room */
      const [mx, my] = [(ax + bx) / 2 - 2 * back * dy / far, (ay + by) / 2 + 2 * back * dx / far];
      const open = sees(from, to), shown = open ? words : "· · ·", w = (open && kind === "code" ? 7.3 : 8) * shown.length + 16;
      const along = (a, m, b) => a + (b - a) * share + 2 * share * (1 - share) * (m - (a + b) / 2);
      const x = along(ax, mx, bx) + ox, y = along(ay, my, by) + oy;
      const pill = svg("g", {},
        svg("rect", { x: x - w / 2, y: y - 12, width: w, height: 24, rx: 12, class: `lv-pill-${open ? kind : "sealed"}` }),
        text(x, y + 4.5, shown, open && kind === "code" ? "lv-word" : ""));
      const [hw, hh] = [!wide && CLIENTS.includes(to) ? slim(width) / 2 + 2 : 58, 33], [vx, vy] = [bx - mx, by - my];
      const left = (v, o, half) => (Math.abs(v) < 1 ? Infinity : (half + Math.sign(v) * o) / Math.abs(v)); /* of the way, inside the party */
      const inside = Math.min(left(vx, ox, hw), left(vy, oy, hh)), tip = [bx + ox - vx * inside, by + oy - vy * inside], turn = Math.atan2(vy, vx) * 180 / Math.PI;
      const way = svg("g", { class: "lv-way" }, svg("path", { d: `M${ax + ox} ${ay + oy}Q${mx + ox} ${my + oy} ${tip[0]} ${tip[1]}`, class: "lv-curve-way" }),
        svg("path", { d: "M0 0L-9 -4.5V4.5Z", transform: `translate(${tip[0]} ${tip[1]}) rotate(${turn})` }));
      return { way, pill, from: [ax - x, ay - y], delay: 90 * i };
    }

    function draw(quiet) {
      width = stage.clientWidth;
      if (!width) return; /* not laid out yet: the observer calls again */
      const frame = places(model, width), now = model.steps[step];
      const sent = now.send.map((one, i) => message(one, frame, i));
      const nodes = parties().map((party) => node(party, frame.at[party], !frame.wide));
      const used = new Set(now.send.map((one) => one.slice(0, 2).sort().join()));
      const ways = new Map(model.steps.flatMap((s) => s.send).map((one) => [one.slice(0, 2).sort().join(), one]));
      const direct = ([from, to]) => !model.middle || from + to === "sp" || from === "m" || to === "m";
      const wires = [...ways.values()].filter(direct).filter((one) => !used.has(one.slice(0, 2).sort().join())).map(([from, to]) => { const [a, b] = [frame.at[from], frame.at[to]]; return svg("line", { x1: a[0], y1: a[1], x2: b[0], y2: b[1], class: "lv-wire" }); });
      drawing.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${frame.height}`, "aria-label": `${model.name}, step ${step + 1}`, role: "group" },
        wires, sent.map((s) => s.way), nodes, sent.map((s) => s.pill)));
      if (!quiet && !still.matches)
        for (const s of sent)
          s.pill.animate([{ transform: `translate(${s.from[0]}px,${s.from[1]}px)`, opacity: 0 }, { transform: "none", opacity: 1 }],
            { duration: 800, delay: s.delay, easing: "cubic-bezier(.3,0,.2,1)", fill: "backwards" });
      const last = step === model.steps.length - 1;
      say.replaceChildren(now.say, ...(last ? [" ", html("b", {}, model.take)] : []));
      count.textContent = `${step + 1} of ${model.steps.length}`;
      back.disabled = step === 0;
      next.disabled = last;
      view.replaceChildren(...(eyes ? [`You look through the eyes of ${the(eyes)}.`, all] : ["Select a party to look through its eyes."]));
      const shown = [model.middle && "m", model.server && "s", client, "p"].filter(Boolean).sort((a, b) => (b === eyes) - (a === eyes));
      cards.replaceChildren(...shown.map((party) => {
        const rows = model.steps.slice(0, step + 1).flatMap((s, i) => (s.learn[party] || []).map((row) => [i === step, ...row]));
        return html("section", { class: "lv-card", "data-on": eyes === party, "data-card": party },
          html("p", { class: "lv-head" }, capital(`${the(party)} sees`)),
          rows.length
            ? html("table", {}, html("tbody", {}, rows.map(([fresh, label, value, kind]) =>
              html("tr", { "data-new": fresh }, html("td", { class: `lv-${kind}` }, label), html("td", { class: kind === "code" ? "lv-word" : null }, value)))))
            : html("p", {}, step < model.steps.length - 1 ? "nothing yet" : "nothing"));
      }));
    }
    new ResizeObserver(() => { if (stage.clientWidth !== width) draw(true); }).observe(stage);
    draw(true);
  }

  /* --- guess Alice --------------------------------------------------------------------------- */

  /* density of a count plus Laplace noise; checked in a browser against Python's */
  const density = (x, count, epsilon) => (epsilon / 2) * Math.exp(-Math.abs(x - count) * epsilon);

  function alice(stage, data) {
    const cut = data.without + 0.5;
    let level = data.levels.find((l) => l.epsilon === 1), guesses = [], width = 0;
    const games = new Map(data.levels.map((l) => [l, 0])), past = new Map(data.levels.map((l) => [l, [0, 0]]));
    const answers = () => level.answers[games.get(level)], truth = () => level.in[games.get(level)];
    const right = () => guesses.filter((g, i) => g === truth()[i]).length;
    const attacker = (n) => answers().slice(0, n).filter((a, i) => Number(a > cut) === truth()[i]).length;
    const turn = () => games.set(level, (games.get(level) + 1) % level.in.length);
    const percent = (share) => `${(100 * share).toFixed(share > 0.99 ? 2 : 1)} %`;

    const shown = html("output", { for: "lv-epsilon" });
    const slider = html("input", { type: "range", id: "lv-epsilon", min: 0, max: data.levels.length - 1, step: 1, value: data.levels.indexOf(level),
      oninput: (event) => { if (guesses.length) turn(); level = data.levels[event.target.value]; guesses = []; draw(); } });
    const number = html("span", { class: "lv-number" }), round = html("span", { class: "lv-count" });
    const say = html("p", { class: "lv-say", "aria-live": "polite" }), plot = html("div");
    const pick = (label, value, key) => html("button", { type: "button", "aria-keyshortcuts": key, onclick: () => guess(value) }, label);
    const out = pick("← She is not", 0, "ArrowLeft"), inside = pick("Alice is in →", 1, "ArrowRight");
    const again = html("button", { type: "button", class: "lv-main", onclick: () => { turn(); guesses = []; draw(); out.focus(); } }, "Ten more");
    const choice = html("div", { class: "lv-choice" }), score = html("tbody");
    stage.addEventListener("keydown", (event) => {
      const value = { ArrowLeft: 0, ArrowRight: 1 }[event.key];
      if (value == null || event.target === slider || guesses.length === 10) return;
      event.preventDefault();
      guess(value);
    });
    stage.replaceChildren(
      html("div", { class: "lv-slider" }, html("label", { for: "lv-epsilon" }, "epsilon"), slider, shown),
      html("div", { class: "lv-ask" }, number, round), plot, choice, say,
      html("table", { class: "lv-score" }, score));

    function guess(value) {
      guesses.push(value);
      if (guesses.length === 10) { const p = past.get(level); p[0] += right(); p[1] += 10; }
      draw();
      (guesses.length === 10 ? again : value ? inside : out).focus();
    }

    function meter(label, share, words, look) {
      return html("tr", {}, html("th", { scope: "row" }, label),
        html("td", {}, html("span", { class: `lv-meter ${look}` }, html("i", { style: `width:${100 * share}%` }))), html("td", {}, words));
    }

    function draw() {
      width = stage.clientWidth;
      if (!width) return;
      const n = guesses.length, over = n === 10, half = Math.max(3, 4 * level.scale), pad = 14;
      const x = (v) => pad + (width - 2 * pad) * (Math.max(-1, Math.min(1, (v - cut) / half)) + 1) / 2;
      shown.textContent = `ε = ${level.epsilon}`;
      slider.setAttribute("aria-valuetext", `epsilon ${level.epsilon}`);
      number.textContent = over ? `${right()} of 10` : answers()[n].toFixed(2);
      round.textContent = over ? "you were right" : `count ${n + 1} of 10: ${data.without} without Alice, ${data.without + 1} with her, plus noise`;
      if (over !== (choice.firstChild === again)) choice.replaceChildren(...(over ? [again] : [out, inside]));
      if (!choice.firstChild) choice.append(out, inside);

      const base = 108, top = 20, peak = density(0, 0, level.epsilon), mark = [];
      const curve = (count) => Array.from({ length: 161 }, (_, i) => cut - half + half * i / 80).concat(count).sort((a, b) => a - b)
        .map((v) => `${x(v).toFixed(1)},${(base - (base - top) * density(v, count, level.epsilon) / peak).toFixed(1)}`).join(" ");
      const ends = `${x(cut - half)},${base} `, close = ` ${x(cut + half)},${base}`;
      if (over) mark.push(svg("polygon", { points: ends + curve(data.without + 1) + close, class: "lv-area-in" }), svg("polyline", { points: curve(data.without), class: "lv-area-out" }));
      mark.push(svg("line", { x1: pad, x2: width - pad, y1: base, y2: base, class: "lv-edge" }));
      for (const v of [cut - half + 0.5, data.without, data.without + 1, cut + half - 0.5].map(Math.round))
        if (half < 12 || (v !== data.without + 1)) mark.push(svg("line", { x1: x(v), x2: x(v), y1: base, y2: base + 5, class: "lv-edge" }), text(x(v), base + 54, v, "lv-quiet"));
      guesses.forEach((g, i) => mark.push(svg("circle", { cx: x(answers()[i]), cy: base + (truth()[i] ? 15 : 29), r: 5.5, class: truth()[i] ? "lv-in" : "lv-out" })));
      if (!over) mark.push(svg("line", { x1: x(answers()[n]), x2: x(answers()[n]), y1: top, y2: base + 8, class: "lv-now" }));
      if (over) mark.push(svg("line", { x1: x(cut), x2: x(cut), y1: 4, y2: base + 40, class: "lv-dash" }));
      mark.push(svg("circle", { cx: pad, cy: 9, r: 5, class: "lv-in" }), text(pad + 11, 13, "she was in", "lv-quiet", "start"),
        svg("circle", { cx: pad, cy: 28, r: 5, class: "lv-out" }), text(pad + 11, 32, "she was not", "lv-quiet", "start"));
      plot.replaceChildren(svg("svg", { viewBox: `0 0 ${width} 162`, role: "img", "aria-label": over ? "The ten counts, and both worlds' densities" : `The count ${answers()[n]} on a line` }, mark));

      const last = n && `She ${truth()[n - 1] ? "was in" : "was not"}: ${guesses[n - 1] === truth()[n - 1] ? "right" : "wrong"}.`;
      const total = past.get(level);
      say.textContent = over
        ? `${last} In ten rounds luck can pass any ceiling; in the long run nothing can. The best attacker says “in” right of the dashed line.${total[1] > 10 ? ` Your ${total[1]} rounds at this ε: ${total[0]} right.` : ""}`
        : last || "You know everybody else's data. Is Alice in?";
      score.replaceChildren(
        meter("you", n ? right() / n : 0, n ? `${right()} of ${n}` : "–", "lv-mine"),
        meter("best attacker, same counts", n ? attacker(n) / n : 0, n ? `${attacker(n)} of ${n}` : "–", ""),
        meter("best attacker, in the long run", level.best, percent(level.best), ""),
        meter("ceiling for every attacker", level.ceiling, percent(level.ceiling), "lv-limit"));
    }
    new ResizeObserver(() => { if (stage.clientWidth !== width) draw(); }).observe(stage);
    draw();
  }

  /* --- lines: a table's columns over logarithmic axes, read off at a value of x ------------------- */

  const DASHES = ["", "7 4", "2 4", "9 4 2 4"];
  const short = (v) => (v >= 1e4 || v < 1e-3 ? v.toExponential(1).replace("e+", "e") : String(Number(v.toPrecision(3))));
  const whole = (v) => Math.round(v).toLocaleString("en");

  function lines(stage, data) {
    let panel = data.panels[0], width = 0, at = null;
    const grid = () => [...new Set(panel.lines.flatMap((l) => l.points.map((p) => p[0])))].sort((a, b) => a - b);
    const steps = data.read ? 60 : 0; /* "my n" moves freely between measured values, else from one to the next */
    const plot = html("div"), legend = html("ul", { class: "lv-legend" }), say = html("p", { class: "lv-say", "aria-live": "polite" });
    const shown = html("output", {});
    const slider = html("input", { type: "range", min: 0, step: 1, "aria-label": data.read || data.x, oninput: () => draw() });
    const pick = html("select", { "aria-label": "panel", onchange: (event) => { panel = data.panels[event.target.value]; reset(); } },
      data.panels.map((p, i) => html("option", { value: i }, p.name)));
    stage.replaceChildren(
      html("div", { class: "lv-slider" }, data.panels.length > 1 ? pick : null, html("label", {}, html("span", {}, data.read || data.x), slider), shown),
      plot, legend, say);

    function reset() {
      const last = steps || grid().length - 1;
      slider.max = last;
      slider.value = Math.round(last / 2);
      draw();
    }

    /* on a line at x: measured, or between two measured points on logarithmic axes */
    function value(line, x) {
      if (line.level != null) return line.level;
      const i = line.points.findIndex((p) => p[0] >= x * (1 - 1e-9));
      if (i < 0) return null;
      const [b, a] = [line.points[i], line.points[i - 1]];
      if (Math.abs(b[0] / x - 1) < 1e-9) return b[1];
      if (!a || !data.read) return null;
      return Math.exp(Math.log(a[1]) + (Math.log(b[1] / a[1]) * Math.log(x / a[0])) / Math.log(b[0] / a[0]));
    }

    function draw() {
      width = stage.clientWidth;
      if (!width) return;
      const xs = grid(), all = panel.lines.flatMap((l) => [...l.points.map((p) => p[1]), ...(l.level != null ? [l.level] : [])]);
      const [x0, x1] = [xs[0], xs[xs.length - 1]], [low, high] = [Math.min(...all), Math.max(...all)];
      at = steps ? Math.exp(Math.log(x0) + (Math.log(x1 / x0) * slider.value) / steps) : xs[slider.value];
      const log = low > 0 && high / low > 5, left = 52, height = Math.min(340, 190 + width / 5), base = height - 40;
      const y = (v) => (log ? base - (base - 14) * Math.log(v / low) / Math.log(high / low) : base - (base - 14) * (v - low) / (high - low || 1));
      const x = (v) => left + (width - left - 14) * Math.log(v / x0) / Math.log(x1 / x0 || 2);
      const powers = Array.from({ length: 25 }, (_, i) => 10 ** (i - 12)).flatMap((p) => (high / low > 200 ? [p] : [p, 2 * p, 5 * p]));
      const rows = log ? powers.filter((v) => v >= low * 0.999 && v <= high * 1.001) : [0, 0.25, 0.5, 0.75, 1].map((s) => low + s * (high - low));
      const marks = [text(left, 8, data.y, "lv-quiet", "start"), text(width - 14, height - 4, data.x, "lv-quiet", "end")];
      for (const v of rows) marks.push(svg("line", { x1: left, x2: width - 14, y1: y(v), y2: y(v), class: "lv-grid" }), text(left - 7, y(v) + 4, short(v), "lv-quiet", "end"));
      let free = -Infinity;
      for (const v of xs) {
        const label = v >= 1000 ? whole(v) : short(v);
        const middle = Math.min(x(v), width - 4 * label.length);
        if (middle - free < 4 * label.length + 12) continue;
        marks.push(text(middle, base + 18, label, "lv-quiet"));
        free = middle + 4 * label.length;
      }
      marks.push(svg("line", { x1: x(at), x2: x(at), y1: 14, y2: base + 4, class: "lv-now" }));
      panel.lines.forEach((line, i) => {
        const points = line.level != null ? [[x0, line.level], [x1, line.level]] : line.points;
        const dash = line.level != null ? "1 4" : DASHES[Math.floor(i / 5) % 4], look = `lv-c${i % 5}`;
        marks.push(svg("polyline", { points: points.map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(" "), class: `lv-curve ${look}`, "stroke-dasharray": dash }));
        if (line.level == null) for (const p of points) marks.push(svg("circle", { cx: x(p[0]), cy: y(p[1]), r: 3, class: `lv-dot ${look}` }));
      });
      plot.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${data.y} against ${data.x}, ${panel.name}: ${panel.lines.map((l) => l.name).join("; ")}` }, marks));
      shown.textContent = at >= 1000 ? whole(Number(at.toPrecision(2))) : short(at);
      legend.replaceChildren(...panel.lines.map((line, i) => {
        const v = value(line, at), dash = line.level != null ? "1 4" : DASHES[Math.floor(i / 5) % 4];
        return html("li", {}, svg("svg", { viewBox: "0 0 26 10", class: "lv-swatch" }, svg("line", { x1: 0, x2: 26, y1: 5, y2: 5, class: `lv-curve lv-c${i % 5}`, "stroke-dasharray": dash })),
          html("span", {}, line.name), html("b", {}, v == null ? "–" : short(v)));
      }));
      say.hidden = !data.read;
      if (data.read) say.textContent = advice();
    }

    /* price of trust: which method, and how many records bring the same without trust */
    function advice() {
      const method = (line) => line.methods[Math.max(0, line.points.findIndex((p) => p[0] >= at * (1 - 1e-9)))];
      const [most, least] = [panel.lines[0], panel.lines[panel.lines.length - 1]], aim = Math.max(value(most, at), 0.5);
      const [i, mine] = [least.points.findIndex((p) => p[1] <= aim), value(least, at)], [a, b] = [least.points[i - 1], least.points[i]];
      const n = a ? a[0] * (b[0] / a[0]) ** (Math.log(a[1] / aim) / Math.log(a[1] / b[1])) : b?.[0]; /* between measured points, as `value` */
      const far = n ? ` For ${short(aim)} % whoever trusts nobody needs about ${whole(Number(n.toPrecision(2)))} records.` : " No measured number of records brings that without trust.";
      return `At this n: ${panel.lines.map((l) => `${l.name} ${short(value(l, at))} % (${method(l)})`).join(", ")}.${mine > aim ? far : " Here trusting nobody costs next to nothing."}`;
    }
    new ResizeObserver(() => { if (stage.clientWidth !== width) draw(); }).observe(stage);
    reset();
  }

  /* --- a private step of Lloyd ------------------------------------------------------------------ */

  function lloyd(stage, data) {
    const ks = [...new Set(data.cases.map((c) => c.k))], epsilons = [...new Set(data.cases.map((c) => c.epsilon))];
    let k = 4, level = epsilons.indexOf(2), draws = 1, width = 0;
    const now = () => data.cases.find((c) => c.k === k && c.epsilon === epsilons[level]);
    const plot = html("div"), bar = html("div"), say = html("p", { class: "lv-say", "aria-live": "polite" }), shown = html("output", {});
    const slider = html("input", { type: "range", min: 0, max: epsilons.length - 1, step: 1, value: level, "aria-label": "epsilon of one look",
      oninput: (event) => { level = Number(event.target.value); draws = 1; draw(); } });
    const tabs = html("fieldset", { class: "lv-tabs lv-few", "aria-label": "number of clusters" }, ks.map((n) =>
      html("label", { class: "lv-tab" }, html("input", { type: "radio", name: "lv-k", checked: n === k, onchange: () => { k = n; draws = 1; draw(); } }), html("span", {}, `k = ${n}`))));
    const again = html("button", { type: "button", class: "lv-main", onclick: () => { draws += 1; draw(); } }, "Draw again");
    const clear = html("button", { type: "button", onclick: () => { draws = 1; draw(); } }, "Start over");
    stage.replaceChildren(tabs, html("div", { class: "lv-slider" }, html("label", {}, html("span", {}, "ε of one look"), slider), shown),
      plot, html("div", { class: "lv-bar" }, again, clear), bar, say);

    function draw() {
      width = stage.clientWidth;
      if (!width) return;
      const size = Math.min(width, 460), at = ([x, y]) => [size / 2 + x * (size / 2 - 12), size / 2 - y * (size / 2 - 12)], c = now();
      const dot = (p, r, look) => svg("circle", { cx: at(p)[0].toFixed(1), cy: at(p)[1].toFixed(1), r, class: look });
      const cross = (p) => { const [x, y] = at(p); return svg("path", { d: `M${x - 6} ${y - 6}L${x + 6} ${y + 6}M${x - 6} ${y + 6}L${x + 6} ${y - 6}`, class: "lv-cross" }); };
      const square = (p) => { const [x, y] = at(p); return svg("rect", { x: x - 6, y: y - 6, width: 12, height: 12, class: "lv-release" }); };
      plot.replaceChildren(svg("svg", { viewBox: `0 0 ${size} ${size}`, role: "img", style: `max-width:${size}px`,
        "aria-label": `Points, ${k} exact means (crosses) and released centres (squares) of draw ${draws}; older draws are pale` },
        svg("rect", { x: 1, y: 1, width: size - 2, height: size - 2, class: "lv-box" }),
        data.points.map((p) => dot(p, 2.5, "lv-point")), c.seen.slice(0, draws - 1).flat().map((p) => dot(p, 5, "lv-cloud")),
        c.exact.filter((_, i) => c.sizes[i]).map(cross), c.seen[draws - 1].map(square)));
      const spent = c.costs[draws - 1], scale = Math.max(data.budget, spent) * 1.02, over = spent > data.budget;
      let left = 6;
      const bricks = c.costs.slice(0, draws).map((cost, i) => {
        const from = i ? c.costs[i - 1] : 0, wide = ((width - 12) * (cost - from)) / scale, x = left;
        left += wide;
        return svg("rect", { x: x + 1, y: 22, width: Math.max(1, wide - 2), height: 20, rx: 3, class: cost > data.budget ? "lv-brick lv-over" : "lv-brick" });
      });
      const limit = 6 + ((width - 12) * data.budget) / scale;
      bar.replaceChildren(svg("svg", { viewBox: `0 0 ${width} 66`, role: "img", "aria-label": `${draws} draws cost epsilon ${spent} of ${data.budget}` },
        bricks, svg("line", { x1: limit, x2: limit, y1: 16, y2: 48, class: "lv-dash" }),
        text(limit, 12, `budget ${data.budget}`, "lv-quiet", limit > width / 2 ? "end" : "start"), text(6, 62, `spent ε = ${spent.toFixed(2)}`, "lv-strong", "start")));
      shown.textContent = `ε = ${epsilons[level]}`;
      slider.setAttribute("aria-valuetext", `epsilon ${epsilons[level]}`);
      again.disabled = draws === c.seen.length;
      clear.disabled = draws === 1;
      const least = Math.min(...c.sizes), most = Math.max(...c.sizes);
      const range = (a, b) => (a === b ? a : `${a} to ${b}`), off = (n) => (c.std / n > 1 ? "the whole box" : (c.std / n).toFixed(2));
      say.textContent = `Noise of ${c.std.toFixed(1)} on a sum, divided by ${range(least, most)} points: a centre jumps by about ${range(off(most), off(least))} in each direction.`
        + (over ? " The budget is spent: a ledger would have refused this look." : draws > 1 ? " The pale dots stay known: their mean tells more than any of them." : "");
    }
    new ResizeObserver(() => { if (stage.clientWidth !== width) draw(); }).observe(stage);
    draw();
  }

  /* --- start ---------------------------------------------------------------------------------- */

  const kinds = { wire, alice, lines, lloyd };
  window.living = { density };
  const begin = () => {
    for (const figure of document.querySelectorAll(".lv[data-living]")) {
      const data = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
      kinds[figure.dataset.living](figure.querySelector(".lv-stage"), data);
    }
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
