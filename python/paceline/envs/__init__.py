"""Environments: built-in ones with Gymnasium's interfaces, and Gymnasium environments for a trainer.

    vec            make_vec and load_env, the public entry points
    vec_env        vectors of built-in environments; single: one built-in environment
    workers        vectors of Python environments, with or without worker processes (_crew, _worker, _spawn, _table)
    _source        Gymnasium environments as rows that a trainer reads
    registration   the ids that Gymnasium knows

Importing this package imports none of these modules.
"""
