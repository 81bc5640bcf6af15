def open_oaks(url):
    from mdstorm import make_reader
    return make_reader(url)
