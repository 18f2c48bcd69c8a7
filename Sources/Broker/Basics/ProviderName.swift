/// The configured name of a provider (`google`, `clover-eu`).
package struct ProviderName: ConfiguredName {
    package let text: String
    package init(unchecked text: String) { self.text = text }
}
