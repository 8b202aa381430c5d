"""The theme: one style per kind of node, box and edge."""

from coda_ir.backends.graphviz.dot import Attributes

FONT = "Helvetica"

GRAPH: Attributes = {
    "rankdir": "TB",
    "fontname": FONT,
    "fontsize": 13,
    "labelloc": "t",
    "labeljust": "l",
    "nodesep": 0.25,
    "ranksep": 0.4,
    "bgcolor": "white",
    "pad": 0.3,
}
NODE: Attributes = {
    "fontname": FONT,
    "fontsize": 12,
    "shape": "box",
    "style": "rounded,filled",
    "fillcolor": "white",
    "color": "#7d8894",
    "margin": "0.12,0.06",
    "height": 0.3,
}
EDGE: Attributes = {
    "fontname": FONT,
    "fontsize": 9,
    "fontcolor": "#5b6570",
    "color": "#5b6570",
    "arrowsize": 0.6,
}

ARGUMENT: Attributes = {"shape": "oval", "style": "filled", "fillcolor": "#ffffff"}
WEIGHT: Attributes = {
    "shape": "cylinder",
    "style": "filled",
    "fillcolor": "#fff6d6",
    "color": "#c9a227",
}
RETURN: Attributes = {
    "shape": "oval",
    "style": "filled",
    "fillcolor": "#3d4852",
    "color": "#3d4852",
    "fontcolor": "white",
}
INSIDE: Attributes = {"fillcolor": "white"}
"""An operator inside a box."""
UNFUSED: Attributes = {"fillcolor": "#ffe2cc", "color": "#d9622b", "penwidth": 1.5}
REMOVED: Attributes = {"style": "rounded,dashed", "color": "#aab4be", "fontcolor": "#8a949e"}
"""An operator that a pass has folded into another one."""

BOX: Attributes = {"style": "rounded,filled", "labeljust": "l", "margin": 10}
GEMM_BOX: Attributes = {**BOX, "fillcolor": "#eaf2fb", "color": "#2f6db5"}
MAP_BOX: Attributes = {**BOX, "fillcolor": "#e8f6ec", "color": "#3a8f56"}
FINALIZE_BOX: Attributes = {**BOX, "fillcolor": "#f2ecfa", "color": "#7a4fb5"}
PREPARED_BOX: Attributes = {**BOX, "fillcolor": "#fffbec", "color": "#c9a227"}
FUNCTION_BOX: Attributes = {**BOX, "fillcolor": "white", "color": "#c4ccd4"}

ON_CHIP: Attributes = {}
THROUGH_MEMORY: Attributes = {"penwidth": 2.0, "color": "#2b3540"}
PARTIAL_EDGE: Attributes = {"style": "dashed", "color": "#7a4fb5", "fontcolor": "#7a4fb5"}
