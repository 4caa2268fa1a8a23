// What is wrong with what is drawn now: part of a script of a test.
const look = () => {
  const wrong = new Set();
  const say = (what, one) => wrong.size < 20 && wrong.add(`${what}: ${one.localName}.${one.getAttribute("class")} ${one.textContent.trim().slice(0, 80)}`);
  const style = new Map();
  const styleOf = (one) => style.get(one) ?? style.set(one, getComputedStyle(one)).get(one);
  const clips = (one) => styleOf(one).overflowX !== "visible" || /paint|strict/.test(styleOf(one).contain);
  const box = (one, until) => {  // as much of it as is seen inside of until
    let { left, right, top, bottom } = one.getBoundingClientRect();
    for (let up = one.parentElement; up && up !== until.parentElement; up = up.parentElement) {
      if (!clips(up)) continue;
      const around = up.getBoundingClientRect();
      [left, right, top, bottom] = [Math.max(left, around.left), Math.min(right, around.right), Math.max(top, around.top), Math.min(bottom, around.bottom)];
    }
    return { left, right, top, bottom };
  };
  const isThere = (a) => a.right - a.left > 1 && a.bottom - a.top > 1;
  const meets = (a, b) => isThere(a) && isThere(b) && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  const within = (a, b) => !isThere(a) || (a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1);
  const RIGHT_TO_LEFT = /[\u0590-\u08ff]/;

  for (const { name } of performance.getEntriesByType("resource")) if (!name.startsWith(`${location.origin}/page/`)) wrong.add(`asked for: ${name}`);
  for (const one of document.querySelectorAll("#view, .detail, .detail *, dialog[open], .choices, .done, .errors")) {
    const scrolls = /auto|scroll/.test(styleOf(one).overflowX) && !one.closest(".rows, .scroller, textarea");
    if (scrolls && one.scrollWidth > one.clientWidth + 1) say("wider than its place", one);
  }
  if (document.scrollingElement.scrollWidth > innerWidth) wrong.add("wider than the window");
  for (const row of document.querySelectorAll("tbody tr, .tree .row, .hex .row, .choices li, .stops li, .breakpoints li, .finding summary")) {
    const cells = [...row.children].map((one) => [one, box(one, row)]);
    cells.forEach(([one, a], at) => {
      for (const [, b] of cells.slice(at + 1)) if (meets(a, b)) say("over its neighbour", one);
      for (const name of one.querySelectorAll("bdi")) if (!within(box(name, row), a)) say("out of its cell", name);
    });
    const next = row.nextElementSibling;
    if (next && meets(row.getBoundingClientRect(), next.getBoundingClientRect())) say("over the next row", row);
  }
  for (const node of document.querySelectorAll("svg.map .node")) {
    const around = node.querySelector("rect").getBoundingClientRect();
    const label = node.querySelector("foreignObject");
    const text = styleOf(label.firstElementChild);
    const cut = Math.max(label.x.baseVal.value + label.width.baseVal.value - (node.querySelector("rect").x.baseVal.value + around.width), label.height.baseVal.value - around.height);
    if (cut > 0 || text.overflowX !== "hidden" || text.textOverflow !== "ellipsis") say("out of its node", node);
  }
  for (const name of document.querySelectorAll("bdi")) {
    if (styleOf(name).unicodeBidi !== "isolate") say("not isolated", name);
    const rest = name.nextSibling;
    if (rest?.nodeType !== 3 || !rest.data.trim()) continue;
    const range = document.createRange();
    range.selectNodeContents(rest);
    const [after, before] = [range.getClientRects()[0], [...name.getClientRects()].at(-1)];
    if (after && before && Math.abs(after.top - before.top) < 4 && after.left < before.right - 1) say("after it, but before it", name);
  }
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    if (!RIGHT_TO_LEFT.test(text.data) || text.parentElement.closest("svg title, script, style")) continue;
    let up = text.parentElement;
    while (styleOf(up).display === "inline" && !/isolate|plaintext/.test(styleOf(up).unicodeBidi)) up = up.parentElement;
    if (styleOf(up).display !== "inline" && styleOf(up).unicodeBidi !== "plaintext" && up.textContent.trim() !== text.data.trim()) say("reorders what is around it", up);
  }
  for (const one of document.querySelectorAll("svg :is(path, rect) > title, .actions [title]"))
    if (RIGHT_TO_LEFT.test((one.getAttribute("title") ?? one.textContent).replace(/\u2068[^\u2068\u2069]*\u2069/g, ""))) say("reorders the words of a tooltip", one);
  for (const one of document.querySelectorAll("pre")) {
    const range = document.createRange();
    for (const text of [...one.childNodes].filter((node) => node.nodeType === 3)) {
      for (const { index: at } of [...text.data.matchAll(/^.*[\u0590-\u08ff]/gmu)].slice(0, 20)) {
        range.setStart(text, at);
        range.setEnd(text, at + 1);
        const [first] = range.getClientRects();
        if (first && first.left > one.getBoundingClientRect().left + 20) say("a line that begins at the right", one);
      }
    }
  }
  for (const one of document.querySelectorAll(".hex .row")) if (!/^[ -~·]*$/.test(one.textContent) || one.offsetHeight !== 20) say("not a row of bytes", one);
  for (const one of document.querySelectorAll(".tree .row")) if (one.offsetHeight !== 22) say("higher than a row", one);
  return [...wrong];
};
