import BrokerWire
package import NIOCore

/// An upstream's response body, streamed with back-pressure: the next chunk is read when it is asked for.
///
/// Throws when the upstream breaks off or says nothing for the read timeout; the app's connection must then be cut, not
/// ended.
package struct RelayBody: AsyncSequence, Sendable {
    package typealias Element = ByteBuffer

    let response: UpstreamResponse
    let place: UpstreamConcurrency.Place

    package struct AsyncIterator: AsyncIteratorProtocol {
        let body: RelayBody

        package mutating func next() async throws -> ByteBuffer? { try await body.response.next() }
    }

    package func makeAsyncIterator() -> AsyncIterator { AsyncIterator(body: self) }
}
