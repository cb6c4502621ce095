"""Environments: the library's own under Gymnasium's interfaces, and Gymnasium's as a trainer's rows.

    vec            make_vec and load_env, the way in
    vec_env        the library's vector environments; single: one of them
    workers        vectors of environments written in Python, in worker processes or not (_crew, _worker, _spawn, _table)
    vector         Gymnasium environments as rows that a trainer reads
    registration   the ids that Gymnasium knows

Importing this package imports none of them.
"""
