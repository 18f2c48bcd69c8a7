import ArgumentParser
import Yams
import Hummingbird
import AsyncHTTPClient
