"""Where vintages come from: one module per source, each yielding metadata and change points."""
