"""Django: migrations of its own applications and of a small one, models, transactions, the admin, inspectdb."""
import datetime as dt
import io
import os
import sys
import tempfile
from decimal import Decimal

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
sys.path.insert(0, os.path.dirname(__file__))
migrations = tempfile.mkdtemp()
os.mkdir(os.path.join(migrations, "shop_migrations"))
sys.path.insert(0, migrations)
import django
from django.conf import settings

settings.MIGRATION_MODULES = {"shop": "shop_migrations"}
django.setup()
from django.core.management import call_command
from django.db import IntegrityError, connection, migrations as m, models, transaction
from django.db.models import Count, F, Q, Sum
from django.db.models.functions import TruncMonth

open(os.path.join(migrations, "shop_migrations", "__init__.py"), "w").close()
failed = []


def migrate():
    call_command("makemigrations", "shop", verbosity=0)
    call_command("migrate", verbosity=0)


def alterations():
    from shop.models import Customer
    with connection.schema_editor() as editor:
        field = models.CharField(max_length=20, default="x", null=False)
        field.set_attributes_from_name("code")
        editor.add_field(Customer, field)
        renamed = models.CharField(max_length=40, default="x", null=False)
        renamed.set_attributes_from_name("code_name")
        editor.alter_field(Customer, field, renamed)
        number = models.TextField(null=True)
        number.set_attributes_from_name("code_name")
        editor.alter_field(Customer, renamed, number)
        editor.alter_db_table(Customer, "shop_customer", "shop_client")
        editor.alter_db_table(Customer, "shop_client", "shop_customer")
        editor.remove_field(Customer, number)


def queries():
    from shop.models import Customer, Order, Tag
    ada = Customer.objects.create(name="ada", notes={"age": 36})
    ben, _ = Customer.objects.get_or_create(name="ben")
    Customer.objects.get_or_create(name="ben")
    Order.objects.bulk_create([Order(customer=ada, total=Decimal(n), due=dt.date(2026, 1, n)) for n in range(1, 11)])
    assert Order.objects.aggregate(Sum("total"))["total__sum"] == 55
    rows = Customer.objects.annotate(n=Count("orders")).order_by("name").values_list("name", "n")
    assert list(rows) == [("ada", 10), ("ben", 0)]
    Order.objects.filter(total__gt=5).update(paid=True, total=F("total") + 1)
    assert Order.objects.filter(Q(paid=True) & ~Q(total=7)).count() == 4
    months = Order.objects.annotate(month=TruncMonth("due")).values("month").annotate(n=Count("id"))
    assert [row["n"] for row in months] == [10]
    first = Order.objects.select_related("customer").order_by("due")[0]
    first.tags.set([Tag.objects.create(word="new"), Tag.objects.create(word="old")])
    assert sorted(first.tags.values_list("word", flat=True)) == ["new", "old"]
    assert Customer.objects.filter(orders__tags__word__icontains="NE").distinct().get() == ada
    assert Customer.objects.get(name__startswith="a").notes == {"age": 36}
    assert list(Order.objects.dates("due", "year")) == [dt.date(2026, 1, 1)]
    Order.objects.bulk_create([Order(id=first.id, customer=ada, total=99)], update_conflicts=True,
                              unique_fields=["id"], update_fields=["total"])
    assert Order.objects.get(id=first.id).total == 99
    assert Order.objects.exclude(customer__in=Customer.objects.filter(name="ben")).exists()


def transactions():
    from shop.models import Customer, Order
    try:
        with transaction.atomic():
            Customer.objects.create(name="cyd")
            with transaction.atomic():
                Order.objects.create(customer_id=Customer.objects.get(name="cyd").id, total=1)
            raise KeyError
    except KeyError:
        pass
    assert not Customer.objects.filter(name="cyd").exists()
    with transaction.atomic():
        try:
            with transaction.atomic():
                Customer.objects.create(name="ada")
            raise AssertionError("a duplicate")
        except IntegrityError:
            pass
        assert Customer.objects.select_for_update().filter(name="ada").count() == 1
    try:
        with transaction.atomic():
            Order.objects.create(customer_id=10**6, total=1)
        raise AssertionError("a reference to nothing")
    except IntegrityError:
        pass


def admin():
    from django.contrib.auth.models import User
    from django.test import Client
    User.objects.create_superuser("root", "r@example.org", "secret")
    client = Client()
    assert client.login(username="root", password="secret")
    for page in ("", "shop/customer/", "shop/customer/?q=a", "shop/order/add/", "auth/user/?is_staff__exact=1"):
        assert client.get("/admin/" + page).status_code == 200, page
    done = client.post("/admin/shop/customer/add/", {"name": "dan", "notes": '{"a": 1}'})
    assert done.status_code == 302, done.content


def inspection():
    out = io.StringIO()
    call_command("inspectdb", stdout=out)
    text = out.getvalue()
    assert "class ShopOrder(models.Model)" in text and "ForeignKey" in text, text
    assert "# Unable" not in text and "# The error" not in text, text


def end():
    call_command("flush", verbosity=0, interactive=False)
    call_command("migrate", "shop", "zero", verbosity=0)


for part in (migrate, alterations, queries, transactions, admin, inspection, end):
    try:
        part()
    except Exception as error:
        import traceback
        sql = traceback.format_exc().splitlines()[-1] if os.environ.get("SHORT") else traceback.format_exc()[-1500:]
        failed.append(f"{part.__name__}: {str(error)[:600]} {sql if os.environ.get('VERBOSE') else ''}")
        connection.close()
print("\n".join(failed))
sys.exit(bool(failed))
