import HTTPTypes
import Hummingbird
import NIOCore

/// A body writer that collects the written bytes.
final class BodyCollector: ResponseBodyWriter {
    private(set) var bytes: [UInt8] = []
    func write(_ buffer: ByteBuffer) async throws { bytes += Array(buffer.readableBytesView) }
    func finish(_ trailingHeaders: HTTPFields?) async throws {}
}
