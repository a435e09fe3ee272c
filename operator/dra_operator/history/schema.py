"""Schema: the tables of a record, and how a store is opened, by SQLAlchemy: SQLite in WAL mode, or PostgreSQL.

Times are microseconds since 1970. Bodies are JSON, compressed with a dictionary; what changes seldom of one is stored
once by its content. Source: docs/history.md.
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import orjson
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    create_engine,
    insert,
    inspect,
    make_url,
    select,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from dra_operator.api.convert import Body
from dra_operator.questions.answers import QuestionError

SCHEMA: Final = 2
"""The version of the tables; a store of another one is refused."""
MICRO: Final = 1_000_000
"""Microseconds of a second."""
SERVER: Final = "Server"
UNREAD: Final = "Unread"
POD_SHAPE: Final = "PodShape"
POD_SUM: Final = "PodSum"
"""What a record keeps beside objects: the version of the API server, why a kind cannot be read, and how many equal pods
without claims a node has, as `NODE/SHAPE`."""


class StoreError(QuestionError):
    """There is no such record, it cannot be opened, or it has no answer; the text says which, and what to do."""


class OtherWriterError(StoreError):
    """Another process has written to the store since it was read."""


TABLES: Final = MetaData()
_ID: Final = BigInteger().with_variant(Integer, "sqlite")
"""In SQLite, only an INTEGER that is the primary key needs no index beside the table."""
META: Final = Table("meta", TABLES, Column("key", String(32), primary_key=True), Column("value", Text))
"""`schema`; `begin`, when the record begins; `covered`, up to when it is complete but for gaps."""
CONTENT: Final = Table(
    "content",
    TABLES,
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("digest", LargeBinary(16), unique=True, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
OBJECT: Final = Table(
    "object",
    TABLES,
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("kind", String(64), nullable=False),
    Column("namespace", String(64), nullable=False),
    Column("name", Text, nullable=False),
    Column("uid", String(64), nullable=False),
    Column("version", String(32), nullable=False),
    Index("object_kind", "kind"),
)
"""An object by its uid; `version` is the last resourceVersion that was seen."""
STATE: Final = Table(
    "state",
    TABLES,
    Column("object", BigInteger, primary_key=True, autoincrement=False),
    Column("since", BigInteger, primary_key=True, autoincrement=False),
    Column("until", BigInteger),
    Column("content", BigInteger, nullable=False),
    Column("own", LargeBinary, nullable=False),
    Column("flags", SmallInteger, nullable=False),
    Index("state_until", "until"),
    sqlite_with_rowid=False,
)
"""What an object was from a time until another; `flags` are those below."""
FOUND: Final = 1
"""It was so already when the record began, or after a gap."""
HOLDS: Final = 2
"""It is a claim with devices."""
RUNS: Final = 4
"""It is a pod that runs."""
WAIT: Final = Table(
    "wait",
    TABLES,
    Column("object", BigInteger, primary_key=True, autoincrement=False),
    Column("since", BigInteger, primary_key=True, autoincrement=False),
    Column("until", BigInteger),
    Column("reason", String(64), nullable=False),
    Column("message", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""Why a pod or a claim waited; `message` is the last text, as content."""
GAP: Final = Table(
    "gap",
    TABLES,
    Column("since", BigInteger, primary_key=True, autoincrement=False),
    Column("until", BigInteger, nullable=False),
)


def open_store(url: str, *, create: bool = False) -> Engine:
    """Return the engine of a store, made with `create`; a URL without `://` is a file of SQLite. Raises StoreError."""
    try:
        made = make_url(url if "://" in url else f"sqlite:///{url}")
        shown = str(made) if "://" in url else url  # without the password
        how = f"`kubectl dra record --to {shown}` makes one"
        is_file = made.get_backend_name() == "sqlite"
        if not is_file and made.get_backend_name() != "postgresql":
            raise StoreError(f"{shown}: a record is a file of SQLite, or postgresql://user@host/database")
        if is_file and made.database and Path(made.database).is_dir():
            raise StoreError(f"{shown}: is a directory: name a file in it")
        if is_file and not create and not Path(made.database or "").is_file():
            raise StoreError(f"{shown}: there is no such file: {how}")
        # A connection a transaction: none stays open that nobody closes. In SQLite it waits for others, in seconds.
        engine = create_engine(made, poolclass=NullPool, connect_args={"timeout": 10} if is_file else {})
        with engine.begin() as connection:
            if create and is_file:
                # Readers see a whole state while the recorder writes. It stays so in the file.
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            names = inspect(connection).get_table_names()
            if META.name not in names:
                if others := sorted(set(names) - TABLES.tables.keys()):
                    raise StoreError(
                        f"{shown}: is no record, as it has a table {others[0]}: name one of its own"
                    )
                if not create:
                    raise StoreError(f"{shown}: holds no record: {how}")
            if create:
                TABLES.create_all(connection)
            found = connection.scalar(select(META.c.value).where(META.c.key == "schema"))
            if found is None and create:
                connection.execute(insert(META).values(key="schema", value=str(SCHEMA)))
    except ImportError as error:
        raise StoreError(
            f"PostgreSQL needs psycopg: pip install 'dra-operator[history,postgres]' ({error})"
        ) from error
    except (SQLAlchemyError, ValueError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{url.partition('://')[0]}: the store cannot be opened: {_words(error)}") from error
    if found is not None and int(found) != SCHEMA:
        raise StoreError(
            f"{shown}: has schema {found}, and this program knows {SCHEMA}: use the kubectl-dra that wrote it"
        )
    return engine


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """Give a connection of which all or nothing is done. Raises StoreError for what the store refuses."""
    try:
        with engine.begin() as connection:
            yield connection
    except SQLAlchemyError as error:
        raise StoreError(f"the store cannot be read or written: {_words(error)}") from error


def _words(error: Exception) -> str:
    """Return what an error says, without the statement that failed."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


# --- bodies

_DICTIONARY: Final = (
    b'{"nodeName":"node-","status":{"allocation":{"devices":{"results":[{"adminAccess":false,"consumedCapacity":{"'
    b'memory":"0"},"device":"gpu-0","driver":"gpu.example.com","pool":"node-","request":"gpu","shareID":"","tolerat'
    b'ions":[]}]},"nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","valu'
    b'es":["node-"]}]}]},"allocationTimestamp":"2026-01-01T00:00:00Z"},"reservedFor":[{"name":"","resource":"pods",'
    b'"uid":""}]},"metadata":{"annotations":{"resource.kubernetes.io/pod-claim-name":"gpu"},"creationTimestamp":"20'
    b'26-01-01T00:00:00Z","finalizers":["resource.kubernetes.io/delete-protection"],"generateName":"","labels":{"ap'
    b'p":"","batch.kubernetes.io/job-name":"","pod-template-hash":""},"ownerReferences":[{"apiVersion":"v1","blockO'
    b'wnerDeletion":true,"controller":true,"kind":"Pod","name":"","uid":""}]},"status":{"conditions":[{"lastTransit'
    b'ionTime":"2026-01-01T00:00:00Z","reason":"PodCompleted","status":"False","type":"ContainersReady"},{"lastTran'
    b'sitionTime":"2026-01-01T00:00:00Z","status":"True","type":"PodScheduled"},{"lastTransitionTime":"2026-01-01T0'
    b'0:00:00Z","status":"True","type":"Initialized"},{"type":"Ready"},{"type":"PodReadyToStartContainers"}],"phase'
    b'":"Running","resourceClaimStatuses":[{"name":"gpu","resourceClaimName":""}],"containerStatuses":[{"state":{"t'
    b'erminated":{"finishedAt":"2026-01-01T00:00:00Z"}}}]}}'
)
"""What bodies have in common. It belongs to the schema: with another one nothing stored can be read."""
_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion")


def pack(value: Any) -> bytes:
    """Return JSON, compressed: the same bytes for the same value."""
    # Bodies are short: without the header and the checksum.
    press = zlib.compressobj(zlib.Z_BEST_SPEED + 4, wbits=-zlib.MAX_WBITS, zdict=_DICTIONARY)
    # Opaque parameters may be bytes (`cluster.decoding`).
    text = orjson.dumps(value, default=orjson.Fragment, option=orjson.OPT_SORT_KEYS)
    return press.compress(text) + press.flush()


def unpack(data: bytes) -> Any:
    """Return what was packed."""
    press = zlib.decompressobj(-zlib.MAX_WBITS, zdict=_DICTIONARY)
    return orjson.loads(press.decompress(data) + press.flush())


def digest_of(data: bytes) -> bytes:
    """Return the hash by which content is known."""
    return blake2b(data, digest_size=16).digest()


def split(body: Body) -> tuple[Body, Body]:
    """Return what of a body changes seldom and is the same in copies, and what is its own."""
    own = {"metadata": {name: each for name, each in body["metadata"].items() if name not in _IDENTITY}}
    content = {name: each for name, each in body.items() if name not in ("metadata", "status", "kind")}
    if "status" in body:
        own["status"] = body["status"]
    if (node := (body.get("spec") or {}).get("nodeName")) and body["kind"] == "Pod":
        own["nodeName"] = node
        content["spec"] = {name: each for name, each in body["spec"].items() if name != "nodeName"}
    return content, own


def join(key: tuple[str, str, str], uid: str, content: Body, own: Body) -> Body:
    """Return the body that `split` took apart; `key` is kind, namespace and name."""
    kind, namespace, name = key
    names = {"name": name, "namespace": namespace, "uid": uid}
    metadata = {**{field: each for field, each in names.items() if each}, **own["metadata"]}
    body = {**content, "kind": kind, "metadata": metadata}
    if "status" in own:
        body["status"] = own["status"]
    if "nodeName" in own:
        body["spec"] = {**body["spec"], "nodeName": own["nodeName"]}
    return body
