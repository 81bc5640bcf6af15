import petastorm

def f(url):
    print "reading", url
    r = petastorm.make_reader(url)
    try:
        return r.next()
    except Exception, e:
        print e
