// Contrast of every visible text against what lies behind it (WCAG 2.2, 1.4.3): [[text, ratio], …] below `least`.
(least) => {
  const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const over = (top, below) => {
    const a = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map((i) => top[i] * a + below[i] * (1 - a));
  };
  function behind(node) {
    const layers = [];
    for (let part = node; part; part = part.parentElement) {
      const colour = parse(getComputedStyle(part).backgroundColor);
      if (colour.length && (colour.length < 4 || colour[3] > 0)) layers.push(colour);
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  }
  const bad = [], seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
    if (!text || !node.checkVisibility() || node.closest("script, style, svg")) continue;
    const style = getComputedStyle(node), back = behind(node);
    const key = `${style.color}|${back}|${style.fontSize}|${style.fontWeight}`;
    if (seen.has(key)) continue;
    seen.add(key);
    const front = over(parse(style.color), back);
    const [high, low] = [luminance(front), luminance(back)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < least) bad.push([text.slice(0, 40), Number(ratio.toFixed(2))]);
  }
  return bad;
}
