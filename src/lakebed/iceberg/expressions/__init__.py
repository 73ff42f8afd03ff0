"""Row filter expressions: parsed, bound to a schema, projected to partitions and evaluated against statistics.

`parsing` reads expressions from JSON, with columns by name (`unbound`). `binding` resolves the columns in a schema
(`bound`). `projection` turns predicates on columns into predicates on partition fields; `manifest_evaluator` and
`metrics_evaluator` prune manifests and files; `residuals` computes what readers must still apply.
"""
