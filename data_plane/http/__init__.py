"""HTTP in front of the front end: the server, its metrics and its logs.

Granian brings an allocator of its own, jemalloc, which gives nothing back unless something is
allocated later: after ten thousand connections had ended, hundreds of megabytes stayed. It looks at
its options when Granian is imported, so they are set here, before that; who has set them decides.
"""

import os

os.environ.setdefault(  # noqa: TID251 - a library's option, which has no other way in
    "_RJEM_MALLOC_CONF", "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0"
)
