import { Coatcheck, MemoryStorage } from './coatcheck'
import { Shop } from './shop'

declare const process: { env: { [name: string]: string | undefined } }

/** A browser for tests. The sandbox's page signs Ana in at once if its URL has her name. */
const browser = {
  open: async (page: string) => {
    const callback = (await fetch(`${page}&sandbox_user=ana`, { redirect: 'manual' })).headers.get('location')
    if (!callback) throw new Error('the sandbox does not lead back')
    return callback
  },
}

/** Runs the model in a terminal: signs in, calls the API, and signs out. */
async function main() {
  const broker = process.env.COATCHECK_URL ?? ''
  const shop = new Shop(new Coatcheck({ broker, client: 'android', transport: 'bearer', storage: new MemoryStorage(), browser }))
  await shop.start()
  console.log('at the start:', shop.screen)
  await shop.signIn()
  console.log('after the sign-in:', shop.screen)
  const following = shop.follow(new AbortController().signal)
  await shop.loadOrders()
  console.log('the API answers', shop.screen.orders, shop.screen.message)
  await shop.signOut()
  console.log('after the sign-out:', shop.screen)
  await following
}

main()
