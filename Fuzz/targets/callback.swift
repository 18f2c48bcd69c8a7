import Broker

/// Callback URLs, and the redirect URIs in them.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    let text = input.text()
    if let uri = RedirectURI(text) { _ = uri.isLoopback }
    guard let url = try? CallbackURL(parsing: text) else { return 0 }
    precondition(text.hasPrefix(url.target) && RedirectURI(url.target) != nil)
    let again = try? CallbackURL(parsing: url.target + "?" + FormPairs.encode(url.parameters.pairs))
    precondition(text.utf8.count > 2048 || again?.parameters == url.parameters)
    return 0
}
