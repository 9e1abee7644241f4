"""What scripts with settings of their own are given in place of them."""

ATTRIBUTES = {
    "factorised_heads": {
        "factorised.factorised_heads": {
            "JUMP_DIMENSIONS": {"linear": (16,), "softmax": (4, 16)},
            "SHOWN_P": {"linear": (290, 430, 680), "softmax": (300, 520)},
            "POSTERIOR_DIMENSIONS": (8, 16, 64),
            "LINE_DIMENSIONS": (4, 15, 16, 256),
            "EFFORT": {"tiny": (2, 1, 20)},
        }
    },
    "agreement": {
        "agreement.agreement": {
            "MIDDLE": {"V": 4, "L": 8},
            "LINES": {(s, e): (0.5, 2.0) for s in ("linear", "softmax") for e in ("map", "posterior")},
        },
        "agreement._agreement": {
            "SIZES": {"tiny": ((4, 8),)},
            "TIMES": {"linear": {0.5: 40.0, 3.0: 40.0}, "softmax": {0.5: 40.0, 2.0: 30.0}},
            "EFFORT": {"tiny": (2, 2, 6, 1.0)},
            "STEPS": {("tiny", "linear"): (0.4, 0.2), ("tiny", "softmax"): (0.6, 0.3)},
        },
        "agreement._agreement_tables": {
            "STEPS": {("tiny", "linear"): (0.4, 0.2), ("tiny", "softmax"): (0.6, 0.3)},
        },
    },
}
