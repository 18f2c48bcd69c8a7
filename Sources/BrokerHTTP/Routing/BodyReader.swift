import Broker
import Hummingbird
import NIOCore
import NIOHTTP1

/// Reads a whole request body, bounded in bytes and time (SEC-102, SEC-105, engineering note 4).
enum BodyReader {
    /// Returns the body.
    ///
    /// A body that is too large, too slow or malformed leaves the connection unusable: the answer has to close it.
    static func collect(_ call: Call, upTo maximum: Int, within deadline: Duration) async throws(BrokerProblem)
        -> [UInt8]
    {
        let pipeline = call.channel.pipeline
        // The timer's error travels the way of the body's parts and ends the loop below.
        let timer = call.channel.eventLoop.scheduleTask(in: TimeAmount(deadline)) {
            pipeline.fireErrorCaught(BodyTimeout())
        }
        defer { timer.cancel() }
        var bytes: [UInt8] = []
        do {
            for try await chunk in call.stream {
                guard bytes.count + chunk.readableBytes <= maximum else { throw BrokerProblem(.tooLarge) }
                bytes.append(contentsOf: chunk.readableBytesView)
            }
        } catch let problem as BrokerProblem {
            throw problem
        } catch is BodyTimeout {
            throw BrokerProblem(.requestTimeout)
        } catch is HTTPParserError {
            throw BrokerProblem(.invalidRequest, detail: "The request's body is not well-formed HTTP/1.1.")
        } catch {
            throw BrokerProblem(.invalidRequest, detail: "The request's body did not arrive.")
        }
        return bytes
    }
}
