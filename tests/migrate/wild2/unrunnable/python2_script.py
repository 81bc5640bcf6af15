# -*- coding: utf-8 -*-
# python 2 only
from petastorm.reader import Reader, ReaderV2
from petastorm.workers_pool.process_pool import ProcessPool
import petastorm, ConfigParser
import cPickle

def show(url):
    reader = Reader(url, reader_pool=ProcessPool(4))
    print "petastorm says", reader.next()
    try:
        for row in reader: print row
    except petastorm.etl.dataset_metadata.PetastormMetadataError, e:
        print >>sys.stderr, e
    exec "import petastorm.codecs"
    raise ValueError, u"petastorm"
