/// The configured name of one client registration at a provider (`ios`, `web`).
package struct ClientName: ConfiguredName {
    package let text: String
    package init(unchecked text: String) { self.text = text }
}
