"""The measured columns in groups. Each measuring function returns one group.

A column is null if nothing was measured; no column is derived from others. The columns that
describe the attempt and its case are in `bench.records.results`, the columns of the machine in
`bench.records.environment`. Standard library only.
"""
