from mdstorm_backend.base.threads import OrderedPool, place


def test_work_knows_its_place_among_that_of_all_pools() -> None:
    with OrderedPool(1) as first, OrderedPool(3) as second:
        pools = [second, first, second, first, first]
        found = [future.result() for future in [pool.submit(place) for pool in pools]]
    assert found == sorted(found)
    assert place() > found[-1]
