// uses: BrokerHTTP/Parsing/CookieReader.swift BrokerHTTP/Parsing/Authorization.swift BrokerHTTP/Parsing/MediaType.swift
// uses: BrokerHTTP/Limits/ClientAddress.swift BrokerHTTP/Limits/ForwardedSchemes.swift
// uses: coatcheck/Configuration/Reading/ShellOrigin.swift coatcheck/Configuration/Reading/RedirectScheme.swift
// uses: BrokerWire/Message/FramingRules.swift BrokerWire/Message/FramingRefusal.swift BrokerWire/Message/Authority.swift
// uses: BrokerWire/Connection/ServerConnection.swift BrokerWire/Connection/ConnectionLimits.swift
// uses: BrokerWire/Connection/ConnectionTimes.swift BrokerWire/Connection/ProgressRate.swift
import Broker

private let proxies = ["10.0.0.0/8", "::1", "2001:db8::/32"].compactMap { IPNetwork($0) }

/// Parses other fields of a request: an `Authorization`, an authority, then lines for `X-Forwarded-For`.
///
/// The authority is also parsed as a `Content-Type` and as a configured origin. The lines are also parsed as
/// `X-Forwarded-Proto`.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    if case .bearer(let secret) = Authorization(input.line()) {
        precondition(secret.reveal().utf8.allSatisfy { (0x21...0x7E).contains($0) })
    }
    let host = input.line()
    if let authority = Authority(host) { precondition(!authority.host.isEmpty && (authority.port ?? 0) <= 99_999) }
    _ = IPNetwork(host)
    if MediaType.json.matches(host) {
        let type = String(decoding: host.utf8.prefix { $0 != UInt8(ascii: ";") }, as: UTF8.self)
        precondition(
            !MediaType.form.matches(host) && !type.contains(",") && type.lowercased().contains("application/json"))
    }
    precondition(MediaType.logged(host).utf8.allSatisfy { (0x20...0x7E).contains($0) && $0 != UInt8(ascii: "`") })
    if ShellOrigin.isOne(host) {
        precondition(host.utf8.allSatisfy { (0x21...0x7E).contains($0) } && !host.contains("*") && host != "null")
        precondition(
            host.components("://").count == 2 && host.components("://").allSatisfy { !$0.isEmpty && !$0.contains("/") })
    }
    var hops: [String] = []
    while !input.isEmpty { hops.append(input.line()) }
    let peer = IPAddress("10.1.2.3")
    let client = ClientAddress(peer: peer, peerText: "10.1.2.3", forwardedFor: hops, trusted: proxies)
    precondition(client.address != nil)
    schemes(hops, behind: client.hops)
    return 0
}

/// If a client adds an entry at the beginning of a list, the entry that counts stays the same.
private func schemes(_ fields: [String], behind hops: Int) {
    let schemes = ForwardedSchemes(fields)
    let verdict = schemes.verdict(behind: hops)
    guard schemes.isList else { return }
    let planted = ForwardedSchemes(["https"] + fields).verdict(behind: hops)
    if case .tooShort(let entries, let needed) = verdict {
        precondition(entries < needed && hops == needed)
    } else {
        precondition(planted == verdict)
    }
}

extension String {
    /// Returns the parts between separators.
    fileprivate func components(_ separator: String) -> [Substring] {
        split(separator: separator, omittingEmptySubsequences: false)
    }
}
