"""SQLAlchemy: core, ORM and reflection. Prints nothing if all is well."""
import datetime as dt
import decimal
import sys

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "alch_authors"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(50), unique=True)
    born: Mapped[dt.date | None]
    books: Mapped[list["Book"]] = relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "alch_books"
    __table_args__ = (sa.CheckConstraint("pages > 0", name="has_pages"), sa.Index("by_title", "title"))
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    pages: Mapped[int] = mapped_column(server_default="1")
    price: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(10, 2), default=decimal.Decimal("9.50"))
    made: Mapped[dt.datetime] = mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    author_id: Mapped[int] = mapped_column(sa.ForeignKey("alch_authors.id", ondelete="CASCADE"))
    author: Mapped[Author] = relationship(back_populates="books")


def orm(engine):
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        ada = Author(name="ada", born=dt.date(1815, 12, 10))
        ada.books = [Book(title=f"Notes {n}", pages=10 * n) for n in range(1, 6)]
        session.add_all([ada, Author(name="ben")])
        session.commit()
        loaded = session.scalars(sa.select(Author).options(selectinload(Author.books)).order_by(Author.name)).all()
        assert [(a.name, len(a.books)) for a in loaded] == [("ada", 5), ("ben", 0)]
        assert loaded[0].books[0].price == decimal.Decimal("9.50")
        joined = session.execute(
            sa.select(Author.name, sa.func.count(Book.id), sa.func.sum(Book.pages))
            .outerjoin(Book).group_by(Author.name).order_by(Author.name)).all()
        assert [tuple(row) for row in joined] == [("ada", 5, 150), ("ben", 0, None)], joined
        with session.begin_nested() as inner:
            session.add(Author(name="cyd"))
            session.flush()
            inner.rollback()
        try:
            with session.begin_nested():
                session.add(Author(name="ada"))
                session.flush()
            raise AssertionError("a duplicate")
        except sa.exc.IntegrityError:
            pass
        session.delete(loaded[0])
        session.commit()
        assert session.scalar(sa.select(sa.func.count()).select_from(Book)) == 0


def reflection(engine):
    inspector = sa.inspect(engine)
    assert {"alch_authors", "alch_books"} <= set(inspector.get_table_names())
    columns = {c["name"]: c for c in inspector.get_columns("alch_books")}
    assert isinstance(columns["price"]["type"], sa.Numeric) and columns["price"]["type"].scale == 2, columns
    assert isinstance(columns["made"]["type"], sa.DateTime) and columns["made"]["type"].timezone
    assert not columns["title"]["nullable"]
    assert inspector.get_pk_constraint("alch_books")["constrained_columns"] == ["id"]
    keys = inspector.get_foreign_keys("alch_books")
    assert keys[0]["referred_table"] == "alch_authors" and keys[0]["options"] == {"ondelete": "CASCADE"}, keys
    assert [i["name"] for i in inspector.get_indexes("alch_books")].count("by_title") == 1
    assert [u["column_names"] for u in inspector.get_unique_constraints("alch_authors")] == [["name"]]
    checks = inspector.get_check_constraints("alch_books")
    assert [c["name"] for c in checks] == ["has_pages"], checks
    assert inspector.get_table_comment("alch_books") == {"text": None}
    meta = sa.MetaData()
    meta.reflect(engine)
    assert set(meta.tables["alch_books"].c.keys()) >= {"id", "title"}
    inspector.get_view_names(), inspector.get_schema_names(), inspector.get_sequence_names()


def core(engine):
    from sqlalchemy.dialects.postgresql import insert
    meta = sa.MetaData()
    t = sa.Table("alch_core", meta, sa.Column("k", sa.Integer, primary_key=True, autoincrement=False),
                 sa.Column("v", sa.Text), sa.Column("j", sa.JSON), sa.Column("f", sa.Float),
                 sa.Column("b", sa.LargeBinary), sa.Column("u", sa.Uuid), sa.Column("a", sa.ARRAY(sa.Integer)))
    meta.drop_all(engine)
    meta.create_all(engine)
    with engine.begin() as c:
        c.execute(t.insert(), [{"k": n, "v": str(n), "j": {"n": n}, "f": n / 2, "b": b"\0x", "a": [n]} for n in range(20)])
        c.execute(insert(t).values(k=1, v="new").on_conflict_do_update(index_elements=["k"], set_={"v": "new"}))
        row = c.execute(sa.select(t).where(t.c.k == 1)).mappings().one()
        assert (row["v"], row["j"], row["f"], bytes(row["b"]), row["a"]) == ("new", {"n": 1}, 0.5, b"\0x", [1]), row
        got = c.execute(sa.update(t).where(t.c.k.in_([2, 3])).values(v=t.c.v + "!").returning(t.c.v)).scalars().all()
        assert sorted(got) == ["2!", "3!"]
        window = sa.select(t.c.k, sa.func.row_number().over(order_by=t.c.k.desc())).limit(2)
        assert len(c.execute(window).all()) == 2
        cte = sa.select(t.c.k).where(t.c.k < 5).cte("small")
        assert c.scalar(sa.select(sa.func.count()).select_from(cte)) == 5
        assert c.scalar(sa.select(sa.exists().where(t.c.k == 19)))
        assert c.scalar(sa.select(sa.case((t.c.k > 3, "big"), else_="small")).where(t.c.k == 7)) == "big"
        assert c.execute(sa.delete(t).where(t.c.k > 15)).rowcount == 4
        c.execute(sa.text("savepoint s"))
        c.execute(sa.text("alter table alch_core rename column v to w"))
        c.execute(sa.text("rollback to savepoint s"))
        assert c.scalar(sa.text("select v from alch_core where k = 2")) == "2!"
    meta.drop_all(engine)


engine = sa.create_engine(sys.argv[1])
failed = []
for part in (orm, reflection, core):
    try:
        part(engine)
    except Exception as error:
        failed.append(f"{part.__name__}: {str(error)[:700]}")
print("\n".join(failed))
sys.exit(bool(failed))
