def open_oaks(url):
    from petastorm import make_reader
    return make_reader(url)
