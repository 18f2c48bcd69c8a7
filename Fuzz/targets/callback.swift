import Broker

/// Parses callback URLs, and the redirect URIs in them.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    let text = input.text()
    if let uri = RedirectURI(registered: text) {
        _ = uri.isLoopback
        // The normalized spelling is equal to the text as a redirect URI, and normalizing it again changes nothing.
        guard let again = RedirectURI(registered: uri.normalized) else {
            preconditionFailure("\(uri.normalized) does not parse")
        }
        precondition(again.normalized == uri.normalized && again.registration == uri.registration)
        precondition(
            RedirectURI.areSame(text, uri.normalized) && uri.spelled(for: again).registration == uri.registration)
        precondition(again.path == uri.path || uri.path.isEmpty)
        precondition(again.scheme == uri.scheme && again.host == uri.host && again.query == uri.query)
    }
    guard let url = try? CallbackURL(parsing: text) else { return 0 }
    precondition(text.hasPrefix(url.target) && RedirectURI(url.target) != nil)
    let known = FormNames.ofEveryCallback.exact
    precondition(url.parameters.pairs.allSatisfy { pair in known.contains { $0.hasBytes(of: pair.name) } })
    precondition(Set(url.parameters.pairs.map(\.name)).count == url.parameters.pairs.count)
    let again = try? CallbackURL(parsing: url.target + "?" + FormPairs.encode(url.parameters.pairs))
    precondition(text.utf8.count > 2048 || again?.parameters == url.parameters)
    return 0
}
