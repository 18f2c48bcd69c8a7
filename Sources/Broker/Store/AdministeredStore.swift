/// A store together with its administration.
package typealias AdministeredStore = BrokerStore & StoreAdministration
