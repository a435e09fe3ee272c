"""A record of what happened in a cluster, and what it says, by SQLAlchemy (the extra of its name).

The operator does not import it. `schema` are the tables; `writer` stores changes and gaps, which the `recorder` makes
of what reflectors tell; `reader` gives the state of a time, or what there was in a span. `holders` are who
held devices in a span. For a `report` of card-hours and waits, `layouts` are what pools published, `holdings` what
claims had of it and when their pods ran, and the `sweep` puts both together; a `page` shows it, and
`export` writes what was held and waited for as Parquet.

For what would have happened, `timeline` is the cluster as time goes on, `jobs` are what came and for how long, or are
`planned` by a table, `replay` runs these, `comparison` says what it comes to beside the record, and `check` decides
recorded decisions again. `room` is from when on there was room for one copy.
"""
