// report_style.hpp: how the report looks, by day and by night.
#pragma once

namespace gearbox::replay {

inline constexpr const char* kReportStyle = R"css(
:root{color-scheme:light dark;--paper:#fbfaf7;--card:#fff;--ink:#22262b;--quiet:#7b8794;--rule:#e4e1d9;--best:#e3f1e6;
--c0:#2563a8;--c1:#d9702b;--c2:#3a8f5c;--c3:#b23a63;--c4:#7a58a6;--c5:#8a7a1f;--c6:#2a8f97;--c7:#6b6f76;
--g0:#b9b4aa;--g1:#2f6db3;--g2:#3f9e8f;--g3:#8fb84a;--g4:#e3b23c;--g5:#dd7a3a;--g6:#a84d7e}
@media (prefers-color-scheme:dark){:root{--paper:#16191d;--card:#1e2227;--ink:#e6e3dc;--quiet:#8d98a5;--rule:#343a42;--best:#21392b;
--c0:#6aa9ee;--c1:#f09a5f;--c2:#6cc592;--c3:#ec7ba1;--c4:#b598e0;--c5:#d3c15c;--c6:#63c7cf;--c7:#a7adb5;
--g0:#55565a;--g1:#5b97dc;--g2:#5fbfae;--g3:#a9cf66;--g4:#e6bf5d;--g5:#e8935a;--g6:#c873a1}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1020px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:30px;margin:0 0 4px}h2{font-size:19px;margin:36px 0 10px}
header p{margin:0;color:var(--quiet)}
figure,.wide,details{background:var(--card);border:1px solid var(--rule);border-radius:10px;margin:12px 0;padding:14px}
figcaption{font-weight:600;font-size:14px;margin-bottom:6px}
.wide{overflow-x:auto;padding:4px 10px}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums;width:100%}
th,td{padding:7px 9px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
th:first-child,td:first-child{text-align:left}thead th{color:var(--quiet);font-weight:500}
tbody tr:last-child>*{border-bottom:0}tbody th{font-weight:600}
td.best{background:var(--best);font-weight:600}small{color:var(--quiet)}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:6px 2px;font-size:14px}
.key{display:inline-flex;align-items:center;gap:7px}.key i{width:12px;height:12px;border-radius:3px;flex:none}
.note{color:var(--quiet);font-size:14px}
svg{width:100%;height:auto;display:block;overflow:visible}
.grid{stroke:var(--rule);stroke-width:1}.tick,.unit{fill:var(--quiet);font-size:12px}
.line{fill:none;stroke-width:2;stroke-linejoin:round}.area{opacity:.22}
summary{cursor:pointer;font-weight:600}details table{margin-top:10px}
@media print{body{background:#fff}figure,details{break-inside:avoid}}
)css";

}  // namespace gearbox::replay
