"""How the report looks: light and dark, on a desk and on a phone. No fonts, scripts or images from elsewhere."""

from __future__ import annotations

NODE_COLOURS = 5
"""Classes node-0 to node-4; a sixth node has the colour of the first."""

STYLE = (
    """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --line: #dde1e8; --text: #1b2230; --quiet: #5d687b;
  --kept: #1a7f4b; --kept-soft: #dff3e7; --broken: #c0262d; --broken-soft: #fbe1e2;
  --doubt: #9a6200; --doubt-soft: #fcefd2; --none: #5d687b; --none-soft: #e9ecf1;
  --fault: #d9534f; --down: #6b7280; --late: #c0262d; --point: #475a78;
  --n0: #2563c9; --n1: #d07a12; --n2: #16875d; --n3: #8b45c4; --n4: #c2417d;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12161d; --card: #1a202a; --line: #303947; --text: #e6eaf1; --quiet: #9aa6b8;
    --kept: #5fd196; --kept-soft: #173526; --broken: #ff8a8a; --broken-soft: #43191c;
    --doubt: #f0b95a; --doubt-soft: #3b2c10; --none: #a3aec0; --none-soft: #2a323f;
    --fault: #f0716c; --down: #8b95a5; --late: #ff8a8a; --point: #b4c2da;
    --n0: #7aaeff; --n1: #f2a552; --n2: #56c99a; --n3: #c394f0; --n4: #f08bb9;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); overflow-wrap: anywhere;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 20px 16px 60px; }
h1 { font-size: 1.15rem; margin: 0; font-weight: 650; }
h2 { font-size: 1.05rem; margin: 34px 0 10px; }
h3 { font-size: .95rem; margin: 0; font-weight: 600; }
p { margin: 6px 0; }
code { font: .88em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.quiet, small { color: var(--quiet); font-size: .86rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; }
.card.tight { padding: 4px 16px; }
.verdict { margin-top: 12px; border-left: 6px solid var(--kept); }
.verdict.failed { border-left-color: var(--broken); }
.verdict strong { display: block; font-size: 1.45rem; line-height: 1.25; color: var(--kept); }
.verdict.failed strong { color: var(--broken); }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(170px, 1fr)); gap: 10px 18px; margin: 14px 0 0; }
dl .wide { grid-column: 1 / -1; }
dt { color: var(--quiet); font-size: .8rem; }
dd { margin: 0; }
.chip { display: inline-block; border-radius: 99px; padding: 1px 10px; font-size: .8rem; font-weight: 600;
  white-space: nowrap; background: var(--none-soft); color: var(--none); }
.chip.kept { background: var(--kept-soft); color: var(--kept); }
.chip.broken { background: var(--broken-soft); color: var(--broken); }
.chip.doubt { background: var(--doubt-soft); color: var(--doubt); }
.promise { border-top: 1px solid var(--line); }
.promise:first-child { border-top: 0; }
.promise summary { display: flex; flex-wrap: wrap; gap: 2px 12px; align-items: baseline; margin: 0; padding: 9px 0; }
.promise summary::marker { content: ""; }
.promise summary::-webkit-details-marker { display: none; }
.promise summary::after { content: "\\203A"; color: var(--quiet); }
.promise[open] summary::after { transform: rotate(90deg); }
.promise summary .name { flex: 0 0 5em; color: var(--quiet); font-size: .86rem; }
.promise summary h3 { flex: 1 1 16em; }
.promise summary h3 small { display: block; font-weight: 400; }
.promise ul { margin: 0 0 12px; padding: 0 0 0 calc(5em + 8px); list-style: none; }
.promise li { color: var(--quiet); font-size: .86rem; }
.promise li b { color: var(--text); font-weight: 600; font-variant-numeric: tabular-nums; }
.promise li.found { color: var(--broken); }
@media (max-width: 560px) { .promise ul { padding-left: 0; } .promise summary .name { flex-basis: 100%; } }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 10px; background: var(--card); }
table { border-collapse: collapse; width: 100%; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 6px 14px; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
th { color: var(--quiet); font-weight: 600; white-space: nowrap; }
td { white-space: nowrap; }
details summary { cursor: pointer; margin: 8px 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(340px, 100%), 1fr)); gap: 12px; }
figure { margin: 0; }
figcaption { padding: 8px 14px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: .82rem; color: var(--quiet); margin: 8px 2px; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px;
  vertical-align: -1px; }
svg { display: block; width: 100%; height: auto; }
svg.timeline { min-width: 760px; }
svg text { fill: var(--quiet); font: 11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
svg text.strong { fill: var(--text); font-weight: 600; }
svg text.end { text-anchor: end; }
svg text.middle { text-anchor: middle; }
.grid { stroke: var(--line); stroke-width: 1; }
.healed { stroke: var(--kept); stroke-width: 1.5; stroke-dasharray: 5 3; }
.change { stroke: var(--quiet); stroke-width: 1; stroke-dasharray: 2 3; opacity: .7; }
.lane { fill: var(--none-soft); opacity: .55; }
.fault { fill: var(--fault); opacity: .42; }
.down { fill: var(--down); opacity: .95; }
.paused { fill: var(--doubt); opacity: .75; }
.points { stroke-width: 3; stroke-linecap: round; fill: none; stroke: var(--point); opacity: .55; }
.points.late { stroke: var(--late); opacity: .9; }
.points.ok, .points.fail, .points.info { stroke-width: 7; stroke-linecap: butt; }
.points.ok { stroke: var(--kept); } .points.fail { stroke: var(--doubt); } .points.info { stroke: var(--broken); }
.limit { stroke: var(--late); stroke-width: 1; stroke-dasharray: 4 4; opacity: .8; }
.bar { fill: var(--point); opacity: .8; } .bar.late { fill: var(--late); }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
"""
    + "\n".join(
        f".node-{number} {{ fill: var(--n{number}); }} .line.node-{number} {{ fill: none; stroke: var(--n{number}); }}"
        f" .legend .node-{number} {{ background: var(--n{number}); }}"
        for number in range(NODE_COLOURS)
    )
    + """
.legend .fault { background: var(--fault); } .legend .down { background: var(--down); }
.legend .paused { background: var(--doubt); } .legend .point { background: var(--point); }
.legend .late { background: var(--late); } .legend .healed { background: var(--kept); }
"""
)
