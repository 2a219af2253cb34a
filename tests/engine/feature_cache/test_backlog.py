import threading

from agentserve.engine.feature_cache.backlog import Backlog


def test_jobs_run_in_order_on_another_thread():
    ran = []
    backlog = Backlog("test", max_jobs=10, max_bytes=10)
    for number in range(3):
        assert backlog.offer(lambda number=number: ran.append((number, threading.get_ident())))
    assert backlog.close(30)
    assert [number for number, _ in ran] == [0, 1, 2]
    assert threading.get_ident() not in {thread for _, thread in ran}


def test_it_refuses_rather_than_grows():
    running, goon = threading.Event(), threading.Event()

    def block() -> None:
        running.set()
        goon.wait(30)

    backlog = Backlog("test", max_jobs=2, max_bytes=100)
    assert backlog.offer(block, 50)
    assert running.wait(30)
    assert not backlog.offer(int, 51)  # a running job still holds its bytes
    assert backlog.offer(int, 50)
    assert backlog.offer(int, 0)
    assert not backlog.offer(int, 0)  # two are waiting
    assert not backlog.close(0.01)
    goon.set()
    assert backlog.close(30)


def test_bytes_are_given_back():
    done = threading.Event()
    backlog = Backlog("test", max_jobs=10, max_bytes=100)
    for _ in range(5):
        done.clear()
        # the job before may not have given its bytes back at the moment its event is set
        while not backlog.offer(done.set, 100):
            pass
        assert done.wait(30)
    assert backlog.close(30)


def test_a_closed_one_takes_nothing():
    backlog = Backlog("test", max_jobs=10, max_bytes=100)
    assert backlog.close(30)
    assert not backlog.offer(int)
    assert backlog.close(30)
