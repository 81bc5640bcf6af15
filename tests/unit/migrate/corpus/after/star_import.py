"""A star import, with names that it provides and one that it does not."""
# TODO(mdstorm): PM107: `from petastorm.predicates import *` gives this file `np`, by accident; import it from its own module, then migrate the file again
from petastorm.predicates import *
from petastorm.unischema import *

schema = Unischema("Oaks", [UnischemaField("id", int, (), None, False)])
even = in_lambda(["id"], lambda values: values["id"] % 2 == 0)
odd = in_negate(even)
print(np)
