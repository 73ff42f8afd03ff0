"""Row filter expressions: parsed, bound to a schema, projected to partitions and evaluated against statistics.

An expression from JSON (`parsing`) names columns (`unbound`). `binding` resolves them against a schema (`bound`).
`projection` turns predicates on columns into predicates on partition fields, `manifest_evaluator` and
`metrics_evaluator` skip manifests and files, `residuals` leaves what readers must still apply.
"""
