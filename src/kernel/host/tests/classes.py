class Animal:
    count = 0
    def __init__(self, name, legs=4):
        self.name = name
        self.legs = legs
        Animal.count += 1
    def describe(self, loud=False):
        text = f"{self.name} has {self.legs} legs"
        return text.upper() if loud else text
    @property
    def double(self):
        return self.legs * 2
    @double.setter
    def double(self, value):
        self.legs = value // 2
    @staticmethod
    def helper(x):
        return x + 1
    @classmethod
    def make(cls, name):
        return cls(name, 2)
    def __repr__(self):
        return f"Animal({self.name!r})"
    def __eq__(self, other):
        return isinstance(other, Animal) and self.name == other.name
    def __len__(self):
        return self.legs
    def __getitem__(self, i):
        return self.name[i]
    def __contains__(self, c):
        return c in self.name
    def __add__(self, other):
        return Animal(self.name + other.name)
    def __call__(self, *args, **kw):
        return (args, kw)
    def __lt__(self, other):
        return self.legs < other.legs
class Dog(Animal):
    def __init__(self, name):
        super().__init__(name)
        self.tricks = []
    def describe(self, loud=False):
        return "dog: " + super().describe(loud)
a = Animal("cat"); d = Dog("rex")
print(a.describe(), d.describe(True), a.double, a.helper(1), Animal.helper(2), Dog.make, sep="|") if False else print(a.describe(), d.describe(True), a.double, a.helper(1), Animal.helper(2), sep="|")
a.double = 20; print(a.legs, a == Animal("cat"), a != d, len(a), a[0], "c" in a, a + d, a(1, k=2), Animal.count, isinstance(d, Animal), issubclass(Dog, Animal), type(d).__name__, [a, d], str(a))
d.tricks.append("sit"); d.extra = 5; print(d.tricks, d.extra, hasattr(d, "nope"), getattr(d, "nope", "dflt"), a < d, sorted([a, d], key=lambda v: v.legs), Animal.make("bird").legs, d.__class__.__name__, vars(d))
try:
    a.missing
except AttributeError as e:
    print(e)
class MyError(ValueError):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code
try:
    raise MyError(7)
except ValueError as e:
    print(type(e).__name__, e, e.code, e.args, repr(e))
try:
    try:
        raise KeyError("k")
    except KeyError as e:
        print("caught", e, repr(e))
        raise RuntimeError("wrapped") from e
    finally:
        print("finally")
except RuntimeError as e:
    print(e, type(e.__cause__).__name__)
else:
    print("never")
def f(n):
    try:
        return 1 / n
    except ZeroDivisionError:
        return "zero"
    else:
        return "else"
    finally:
        print("done", n)
print(f(0), f(2))
for i in range(3):
    try:
        if i == 1: continue
        if i == 2: break
        print(i)
    finally:
        print("fin", i)
def counter():
    n = 0
    def inc(by=1):
        nonlocal n
        n += by
        return n
    return inc
c = counter(); print(c(), c(5), c()); fs = [lambda: i for i in range(3)]; print([g() for g in fs]); fs = [lambda i=i: i for i in range(3)]; print([g() for g in fs])
G = 1
def setg():
    global G
    G += 1
    return G
print(setg(), G); import functools; add = functools.partial(lambda a, b, c=0: a + b + c, 1, c=10); print(add(2), add(2, c=0), add.args, add.keywords, functools.reduce(lambda a, b: a * b, [1, 2, 3, 4]))
def kw(a, b=2, *args, c, d=4, **rest): return (a, b, args, c, d, rest)
print(kw(1, c=3), kw(1, 5, 6, 7, c=8, e=9), kw(*[1, 2], **{"c": 3})); print((lambda *a, **k: (a, k))(1, x=2))
def pos(a, /, b): return a, b
print(pos(1, b=2)); 
def deep(n): return 0 if n == 0 else 1 + deep(n - 1)
print(deep(500))
try:
    deep(5000)
except RecursionError as e:
    print("RecursionError", e)
try:
    assert 1 == 2, "msg"
except AssertionError as e:
    print("A", e)
try:
    raise
except RuntimeError as e:
    print(e)
x = 5
def shadow():
    print(x)
    x = 1
try:
    shadow()
except UnboundLocalError as e:
    print(e)
print(f.__name__, Dog.__name__, (lambda: 0).__name__, Dog.describe.__name__, ValueError.__name__, MyError.__mro__ if False else "")
print(repr(ValueError("a")), repr(KeyError("a")), repr(ValueError()), str(KeyError("a")), ValueError(1, 2), [ValueError("q")], Exception("x") == Exception("x"), int, ValueError, Dog)
class It:
    def __init__(self): self.n = 0
    def __iter__(self): return self
    def __next__(self):
        self.n += 1
        if self.n > 3: raise StopIteration
        return self.n
print(list(It()), sum(It()), [v * v for v in It()])
if __name__ == "__main__":
    print("main")
