from django.db import models


class Customer(models.Model):
    name = models.CharField(max_length=80, unique=True)
    joined = models.DateTimeField(auto_now_add=True)
    notes = models.JSONField(null=True)

    class Meta:
        indexes = [models.Index(fields=["joined"], name="shop_joined")]


class Tag(models.Model):
    word = models.SlugField(primary_key=True)


class Order(models.Model):
    customer = models.ForeignKey(Customer, on_delete=models.CASCADE, related_name="orders")
    total = models.DecimalField(max_digits=10, decimal_places=2)
    paid = models.BooleanField(default=False)
    due = models.DateField(null=True)
    tags = models.ManyToManyField(Tag)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(total__gte=0), name="total_not_negative"),
                       models.UniqueConstraint(fields=["customer", "due"], name="one_a_day")]
