// uses: BrokerProviders/Transport/ContentCoding.swift
import Broker

/// Decodes the content coding of answers.
///
/// The input's first line is the field `Content-Encoding`, and the rest is the body. A decoded body never exceeds the limit.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    let field = input.line()
    let body = input.bytes()
    for maximum in [16, 65_536] {
        guard let decoded = try? ContentCoding.decode(body, [field], maximumBytes: maximum) else { continue }
        precondition(decoded.count <= maximum || decoded == body)
        precondition(!body.isEmpty || decoded.isEmpty)
    }
    return 0
}
